"""The arrays of an engine: how they are allocated, and how they are found by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .totals import reduce_rows
from .types import Array, FloatArray

_ALIGN = 64  # bytes: a cache line


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros at an address that starts a cache line, every page in place."""
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    raw = np.empty(size + _ALIGN, np.uint8)
    raw.fill(0)
    start = -raw.ctypes.data % _ALIGN
    rows: Array = raw[start : start + size].view(dtype).reshape(shape)
    return rows


class Named(Mapping[str, Array]):
    """Arrays by name, with an error that helps and a repr that shows shapes."""

    def __init__(self, what: str, arrays: dict[str, Array]) -> None:
        self._what, self._arrays = what, arrays

    def __getitem__(self, name: str) -> Array:
        try:
            return self._arrays[name]
        except KeyError:
            near = difflib.get_close_matches(str(name), self._arrays, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(self._arrays)}"
            raise KeyError(f"no {self._what} {name!r}; {hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        rows = (f"{name}: {a.dtype} {a.shape}" for name, a in self._arrays.items())
        return "{" + ", ".join(rows) + "}"


class Totals(Mapping[str, FloatArray]):
    """Reductions by name, computed when asked for."""

    def __init__(self, spec: Any, latest: list[Array]) -> None:
        self._spec, self._latest = spec, latest
        self._index = {total.name: total for total in spec.totals}

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._index:
            known = ", ".join(self._index) or "none"
            raise KeyError(f"{self._spec.name} has no total {name!r}; there is {known}")
        total = self._index[name]
        column, rows = self._spec.columns[total.column], self._latest[total.column]
        result: FloatArray = reduce_rows(total, column, rows, self._latest[0])
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self})
