"""Reductions over a column, in the blocks of the native core (native/src/publish.c).

Blocks of 256 entities, each reduced in index order, then the blocks in index order: the bits do
not depend on who computes which block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

BLOCK = 256


def reduce_rows(total: Any, column: Any, rows: Any, alive: Any) -> Any:
    """One reduction of every world.

    Args:
        total: what to compute.
        column: the column it is over.
        rows: (worlds, count, ...) its latest values.
        alive: (worlds, entities) uint8, who lives.

    Returns:
        (worlds,) float64; for "argmin" and "argmax" the id of the first entity that has the
        extreme. NaN is no extreme. Over nobody: 0 for a sum, NaN for a mean, "min" and "max", -1
        for an id.
    """
    worlds, first, count = len(rows), column.group.first, column.group.count
    values = rows.reshape(worlds, count, math.prod(rows.shape[2:]))  # count may be 0
    values = values[:, :, total.item].astype(np.float64)
    living = np.ones((worlds, count), bool)
    if total.alive_only:
        living = alive[:, first : first + count] != 0
    if total.op in ("sum", "mean"):
        # Adding 0 changes nothing, so the dead and what fills the last block may be zeros.
        blocks = -(-count // BLOCK)
        padded = np.zeros((worlds, blocks * BLOCK))
        padded[:, :count] = np.where(living, values, 0.0)
        parts = np.cumsum(padded.reshape(worlds, blocks, BLOCK), axis=2)[:, :, -1]
        # The core's sums start at 0, so that none is -0.
        result = np.cumsum(parts, axis=1)[:, -1] + 0.0 if blocks else np.zeros(worlds)
        if total.op == "mean":
            with np.errstate(invalid="ignore"):
                result = result / living.sum(axis=1)
        return result
    least = total.op in ("min", "argmin")
    open_ = living & ~np.isnan(values)
    some = open_.any(axis=1)
    if not some.any():
        return np.full(worlds, -1.0 if total.op.startswith("arg") else np.nan)
    values = np.where(open_, values, np.inf if least else -np.inf)
    extreme = values.min(axis=1) if least else values.max(axis=1)
    if not total.op.startswith("arg"):
        return np.where(some, extreme, np.nan)
    at = np.argmax(open_ & (values == extreme[:, None]), axis=1)
    return np.where(some, first + at, -1).astype(np.float64)
