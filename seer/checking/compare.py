"""Whether two runs told the same, and where not; without keeping every picture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Digest", "difference", "slimmed"]


class Digest:
    """Stands for an array where only equality matters."""

    def __init__(self, array: Any) -> None:
        data = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()
        self.key = array.shape, array.dtype.str, data

    def __repr__(self) -> str:
        return f"an array of shape {self.key[0]}, dtype {np.dtype(self.key[1])}"


def difference(a: Any, b: Any, where: str = "") -> str | None:
    """Where two values differ first; None where they are equal. NaN equals NaN."""
    if isinstance(a, Digest) or isinstance(b, Digest):
        one, other = _digest(a), _digest(b)
        same = one is not None and other is not None and one.key == other.key
        return None if same else f"{where}, {a!r}, has other values"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"{where} has {sorted(map(str, a))} and {sorted(map(str, b))}"
        return _first(difference(a[key], b[key], f"{where}[{key!r}]") for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"{where} has {len(a)} and {len(b)} entries"
        pairs = enumerate(zip(a, b, strict=True))
        return _first(difference(x, y, f"{where}[{k}]") for k, (x, y) in pairs)
    if isinstance(a, (np.ndarray, np.generic, int, float, complex, bool, str, bytes, type(None))):
        x, y = np.asarray(a), np.asarray(b)
        equal = x.shape == y.shape and bool(np.all((x == y) | ((x != x) & (y != y))))
        return None if equal else f"{where} is {_short(a)} and {_short(b)}"
    return None  # objects of other kinds are not looked into


def _digest(value: Any) -> Digest | None:
    if isinstance(value, Digest):
        return value
    return Digest(value) if isinstance(value, np.ndarray) else None


def slimmed(value: Any, above: int) -> Any:
    """The same with digests in place of arrays larger than `above` bytes."""
    if isinstance(value, np.ndarray) and value.nbytes > above and value.dtype != object:
        return Digest(value)
    if type(value) is dict:
        return {key: slimmed(item, above) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(slimmed(item, above) for item in value)
    return value


def _first(found: Iterator[str | None]) -> str | None:
    return next((text for text in found if text is not None), None)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
