"""Values from many environments under many keys, each key as an array with a mask.

Values keep their kind: numbers that no common number type holds without loss, bools among
numbers, arrays of different shapes and everything else are stored as objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..types import Array, BoolArray

__all__ = ["NUMBERS", "Cells", "objects", "spread"]

OBJECT = np.dtype(object)

Cells = list[tuple[int, Any]]
"""(position, dict of keys and values), in ascending order of environments."""

NUMBERS: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64),
    np.bool_: np.dtype(np.bool_),
    **{np.dtype(code).type: np.dtype(code)
       for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]},
}  # fmt: skip


def spread(
    outs: list[dict[str, Any]], rows: int, cells: Iterable[tuple[int, Any]], gymnasium: bool = False
) -> None:
    """Write every key of the cells into `outs`, with its mask.

    Args:
        outs: one dict for each agent.
        rows: how many positions each of them has: position p is row ``p % rows`` of dict
            ``p // rows``.
        cells: (position, {key: value}).
        gymnasium: take Gymnasium's types where they lose nothing.
    """
    columns: dict[Any, tuple[list[int], list[Any]]] = {}
    for position, info in cells:
        for key, value in info.items():
            column = columns.get(key)
            if column is None:
                columns[key] = ([position], [value])
            else:
                column[0].append(position)
                column[1].append(value)
    total = rows * len(outs)
    for key, (positions, values) in columns.items():
        kinds = set(map(type, values))
        if len(outs) > 1 and not _alike(values, kinds):
            _apart(outs, rows, key, positions, values)
            continue
        array: Array | None = None
        nested: list[dict[str, Any]] = []
        if all(issubclass(kind, dict) for kind in kinds):
            nested = [{} for _ in outs]
            spread(nested, rows, zip(positions, values, strict=True), gymnasium)
        else:
            kept = gymnasium and key == "final_obs"  # Gymnasium never batches these
            dtype = None if kept else _common(values, kinds, gymnasium)
            array = _array(total, positions, values, dtype)
        mask: BoolArray = np.zeros(total, np.bool_)
        if len(values) == total:
            mask[:] = True
            members: Iterable[int] = range(len(outs))
        else:
            mask[positions] = True
            members = sorted({position // rows for position in positions})
        for slot in members:
            part = slice(slot * rows, (slot + 1) * rows)
            outs[slot][key] = nested[slot] if array is None else array[part]
            outs[slot][f"_{key}"] = mask[part]


def _alike(values: list[Any], kinds: set[type]) -> bool:
    """Whether these are of one type, which is then what each agent would get alone."""
    if len(kinds) > 1:
        return False
    if kinds == {np.ndarray}:
        first = values[0]
        return all(v.shape == first.shape and v.dtype == first.dtype for v in values)
    return True


def _apart(
    outs: list[dict[str, Any]], rows: int, key: Any, positions: list[int], values: list[Any]
) -> None:
    """The values of a key whose kinds differ: every agent gets an array of its own type."""
    parts: dict[int, list[tuple[int, Any]]] = {}
    for position, value in zip(positions, values, strict=True):
        parts.setdefault(position // rows, []).append((position % rows, {key: value}))
    for slot, cells in parts.items():
        spread([outs[slot]], rows, cells)


def _array(
    total: int, positions: list[int], values: list[Any], dtype: np.dtype[Any] | None
) -> Array:
    """(total, ...) of a type, or of objects, with the values at their positions."""
    if dtype is not None:
        try:
            out: Array = np.zeros((total, *np.shape(values[0])), dtype)
            out[positions] = values
        except (OverflowError, TypeError, ValueError):  # such as an int beyond 64 bits
            pass
        else:
            return out
    out = objects(total)
    for position, value in zip(positions, values, strict=True):
        out[position] = value
    return out


def _common(values: list[Any], kinds: set[type], gymnasium: bool) -> np.dtype[Any] | None:
    """The dtype that holds all values without loss; None: only objects do."""
    if len(kinds) == 1:
        (kind,) = kinds
        dtype = NUMBERS.get(kind)
        if dtype is not None:
            return None if gymnasium and kind is np.bool_ else dtype
        if not issubclass(kind, np.ndarray):
            return None
    arrays = kinds == {np.ndarray}
    dtypes: set[np.dtype[Any]] = {value.dtype for value in values} if arrays else set()
    if arrays and any(value.shape != values[0].shape for value in values):
        return None
    if len(dtypes) == 1:
        return np.dtype(dtypes.pop())
    if gymnasium and (dtype := _first_type(values)) is not None:
        return dtype
    if arrays:
        codes = {"n" if dtype.kind in "iufc" else dtype.kind for dtype in dtypes}
        return _wider(values, dtypes) if codes in ({"n"}, {"U"}, {"S"}) else None
    if all(kind in NUMBERS for kind in kinds):
        if kinds & {bool, np.bool_}:
            return np.dtype(np.bool_) if kinds == {bool, np.bool_} else None
        return _wider(values, {NUMBERS[kind] for kind in kinds})
    return None


def _wider(values: list[Any], dtypes: set[np.dtype[Any]]) -> np.dtype[Any] | None:
    """The common type of some types, unless an integer is too large for it."""
    dtype: np.dtype[Any] = np.result_type(*dtypes)
    if dtype.kind in "fc":
        for value in values:
            whole = np.asarray(value)
            if whole.dtype.kind in "iu" and not _holds(dtype, whole):
                return None
            if whole.dtype == OBJECT:  # an int beyond 64 bits
                return None
    return dtype


def _holds(dtype: np.dtype[Any], whole: Array) -> bool:
    """Whether a float type holds these integers exactly."""
    limit = 2 ** (np.finfo(dtype).nmant + 1)
    return bool(((whole <= limit) & (whole >= -limit if whole.dtype.kind == "i" else True)).all())


def _first_type(values: list[Any]) -> np.dtype[Any] | None:
    """The type of the first value, which Gymnasium takes for all, if all survive in it."""
    first = values[0]
    dtype = first.dtype if isinstance(first, np.ndarray) else NUMBERS.get(type(first))
    if dtype is None or dtype == OBJECT or type(first) is np.bool_:
        return None
    shape = np.shape(first)
    for value in values:
        try:
            there: Any = np.zeros(shape, dtype)
            with np.errstate(all="ignore"):
                there[...] = value
            if np.shape(value) != shape or not np.array_equal(there, value):
                return None
        except (TypeError, ValueError, OverflowError):
            return None
    return np.dtype(dtype)


def objects(count: int) -> Array:
    """(count,) None."""
    out: Array = np.empty(count, object)
    return out
