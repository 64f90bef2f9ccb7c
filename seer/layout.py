"""What compiled methods know of a model: names, types and places, but no sizes of groups.

Two models with the same layout share machine code, so another number of entities or another value
of a parameter compiles nothing. The debug build alone knows the bounds of the groups; other code
finds them behind the parameters, where :func:`stored` puts them.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .spec import ModelSpec

#: Offsets in ``seer_ctx`` and ``seer_event``; SEER_LAYOUT is bumped when they move.
CTX_NOW, CTX_ENTITY, CTX_COLUMNS, CTX_PARAMS = 0, 8, 24, 32
CTX_TOTALS, CTX_FOUND, CTX_SECONDS, CTX_STEP, CTX_BYTES = 40, 48, 56, 64, 72
EVENT_TIME, EVENT_SOURCE, EVENT_SEQUENCE, EVENT_ROUND, EVENT_BYTES = 0, 8, 12, 22, 32
WIDE_BYTES = 40


@dataclass(frozen=True)
class ColumnLayout:
    """A column's row.

    ``group``: the number of the group that has it, or -1 where every entity does. ``bounds``:
    (first, end) of that group, in the debug build only.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    published: bool
    group: int
    bounds: tuple[int, int] | None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class KindLayout:
    """A kind of event and its packed fields."""

    index: int
    name: str
    fields: tuple[tuple[str, str], ...]
    wide: bool


@dataclass(frozen=True)
class Layout:
    """All of it; :attr:`digest` is equal for models that can share code."""

    columns: tuple[ColumnLayout, ...]
    groups: tuple[str, ...]
    kinds: tuple[KindLayout, ...]
    params: tuple[tuple[str, str], ...]
    totals: tuple[str, ...]
    grids: tuple[tuple[str, int], ...]
    debug: bool

    @cached_property
    def digest(self) -> str:
        """Hex digest of the layout."""
        fields = (
            self.columns, self.groups, self.kinds, self.params, self.totals, self.grids, self.debug,
        )  # fmt: skip
        return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]

    def group_offset(self, group: int) -> int:
        """Where, in bytes, a group's first id and its count lie among the parameters."""
        return 8 * (len(self.params) + 2 * group)

    @property
    def params_bytes(self) -> int:
        """Bytes of the parameters with the groups behind them."""
        return self.group_offset(len(self.groups))

    @cached_property
    def column_by_name(self) -> dict[str, ColumnLayout]:
        """Columns by name."""
        return {c.name: c for c in self.columns}

    @cached_property
    def kind_by_name(self) -> dict[str, KindLayout]:
        """Kinds by name."""
        return {k.name: k for k in self.kinds}


def stored(spec: ModelSpec) -> list[bool | int | float]:
    """What ``seer_ctx.params`` holds, 8 bytes each: parameters, then each group's first, count."""
    return [*spec.params.values(), *(n for g in spec.groups for n in (g.first, g.count))]


def layout_of(spec: ModelSpec, debug: bool = False) -> Layout:
    """The layout of a model."""
    names = tuple(g.name for g in spec.groups)

    def group_of(c: Any) -> int:
        return -1 if c.group.name == "all" or len(names) == 1 else names.index(c.group.name)

    def bounds(c: Any) -> tuple[int, int] | None:
        return (c.group.first, c.group.first + c.group.count) if debug else None

    return Layout(
        columns=tuple(
            ColumnLayout(k, c.name, c.dtype.str[1:], c.shape, c.published, group_of(c), bounds(c))
            for k, c in enumerate(spec.columns)
        ),
        groups=names,
        kinds=tuple(
            KindLayout(k, d.name, tuple((n, t.str[1:]) for n, t in d.fields), d.wide)
            for k, d in enumerate(spec.kinds)
        ),
        params=tuple((n, type(v).__name__) for n, v in spec.params.items()),
        totals=tuple(t.name for t in spec.totals),
        grids=tuple((g.name, g.components) for g in spec.grids),
        debug=debug,
    )
