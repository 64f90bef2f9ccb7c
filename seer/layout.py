"""What compiled methods know of a model: names, types and places, but no sizes of groups.

Two models with the same layout share machine code, so another number of entities or another value
of a parameter compiles nothing. The debug build alone knows the bounds of the groups.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .spec import ModelSpec

#: Offsets in ``seer_ctx`` and ``seer_event``; SEER_LAYOUT is bumped when they move.
CTX_NOW, CTX_ENTITY, CTX_COLUMNS, CTX_PARAMS = 0, 8, 24, 32
CTX_TOTALS, CTX_FOUND, CTX_SECONDS, CTX_STEP, CTX_BYTES = 40, 48, 56, 64, 72
EVENT_TIME, EVENT_SOURCE, EVENT_SEQUENCE, EVENT_ROUND, EVENT_BYTES = 0, 8, 12, 22, 32
WIDE_BYTES = 40


@dataclass(frozen=True)
class ColumnLayout:
    """A column's row; ``bounds`` (first, end) of its group in the debug build only."""

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    published: bool
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
    kinds: tuple[KindLayout, ...]
    params: tuple[tuple[str, str], ...]
    totals: tuple[str, ...]
    grids: tuple[tuple[str, int], ...]
    debug: bool

    @cached_property
    def digest(self) -> str:
        """Hex digest of the layout."""
        fields = (self.columns, self.kinds, self.params, self.totals, self.grids, self.debug)
        return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]

    @cached_property
    def column_by_name(self) -> dict[str, ColumnLayout]:
        """Columns by name."""
        return {c.name: c for c in self.columns}

    @cached_property
    def kind_by_name(self) -> dict[str, KindLayout]:
        """Kinds by name."""
        return {k.name: k for k in self.kinds}


def layout_of(spec: ModelSpec, debug: bool = False) -> Layout:
    """The layout of a model."""

    def bounds(c: object) -> tuple[int, int] | None:
        group = c.group  # type: ignore[attr-defined]
        return (group.first, group.first + group.count) if debug else None

    return Layout(
        columns=tuple(
            ColumnLayout(k, c.name, c.dtype.str[1:], c.shape, c.published, bounds(c))
            for k, c in enumerate(spec.columns)
        ),
        kinds=tuple(
            KindLayout(k, d.name, tuple((n, t.str[1:]) for n, t in d.fields), d.wide)
            for k, d in enumerate(spec.kinds)
        ),
        params=tuple((n, type(v).__name__) for n, v in spec.params.items()),
        totals=tuple(t.name for t in spec.totals),
        grids=tuple((g.name, g.components) for g in spec.grids),
        debug=debug,
    )
