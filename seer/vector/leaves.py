"""A Gymnasium space as a flat list of arrays, and its values with it.

`Box`, `Discrete`, `MultiDiscrete` and `MultiBinary` are one leaf each; `Dict` and `Tuple` are
nodes. Everything else (Text, Graph, Sequence, OneOf, a space of the user's own) can't be batched
into an array and is one leaf of dtype object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..types import Array

__all__ = ["OBJECT", "Leaf", "Tree", "filler", "is_mask"]

OBJECT = np.dtype(object)


class Leaf(NamedTuple):
    """One array of a value.

    Attributes:
        path: keys and indices that lead to it from the value; () for the value itself.
        shape: of one value.
        dtype: as the space declares it; object where it can't be batched.
        space: the space at that place.
    """

    path: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    space: Any

    def __str__(self) -> str:
        where = "".join(f"[{key!r}]" for key in self.path)
        return f"{where} {self.dtype}{list(self.shape)}".strip()


_FEW = 4096
"""The largest discrete space whose choices are kept as ready-made scalars."""

_CHOICES: dict[tuple[str, int, int], dict[int, Any]] = {}


class Tree:
    """The leaves of a space, and how values are taken apart and put together.

    Args:
        space: a Gymnasium space.

    Attributes:
        leaves: every leaf, in a fixed order.
        single: the value itself is the only leaf.
        batchable: no leaf is of dtype object.
        choices: number -> ready-made scalar of it, where the value is one of few numbers.
        flatten: value -> sequence of leaf values, in order. Raises KeyError, IndexError or
            TypeError where the value is built otherwise.
        build: sequence of leaf values -> value.
    """

    flatten: Callable[[Any], Sequence[Any]]
    build: Callable[[Sequence[Any]], Any]

    def __init__(self, space: Any) -> None:
        self.space = space
        self.leaves: tuple[Leaf, ...] = tuple(_leaves(space, ()))
        self.single = len(self.leaves) == 1 and self.leaves[0].path == ()
        self.batchable = all(leaf.dtype != OBJECT for leaf in self.leaves)
        self.choices = _choices(self.leaves[0]) if self.single else None
        if self.single:
            self.flatten, self.build = _wrap, itemgetter(0)
        elif len(self.leaves) > 1 and all(
            len(leaf.path) == 1 and isinstance(leaf.path[0], str) for leaf in self.leaves
        ):
            keys = [leaf.path[0] for leaf in self.leaves]
            self.flatten = itemgetter(*keys)
            self.build = lambda values: dict(zip(keys, values, strict=True))
        else:
            self.flatten, self.build = self._flatten, self._build

    def _flatten(self, value: Any) -> list[Any]:
        out: list[Any] = []
        _take_apart(self.space, value, out)
        return out

    def _build(self, values: Sequence[Any]) -> Any:
        return _put_together(self.space, iter(values))

    def __repr__(self) -> str:
        return f"Tree({', '.join(map(str, self.leaves))})"


def _choices(leaf: Leaf) -> dict[int, Any] | None:
    """The scalars of a small discrete space, ready-made: making 64 of them takes 5 us."""
    space, kind = leaf.space, leaf.dtype.type
    if leaf.shape or not 0 < getattr(space, "n", 0) <= _FEW or leaf.dtype.kind not in "iu":
        return None
    key = (leaf.dtype.str, int(space.n), int(space.start))
    table = _CHOICES.get(key)
    if table is None:
        first = int(space.start)
        table = _CHOICES[key] = {k: kind(k) for k in range(first, first + int(space.n))}
    return table


def _wrap(value: Any) -> tuple[Any]:
    return (value,)


def _leaves(space: Any, path: tuple[Any, ...]) -> list[Leaf]:
    from gymnasium import spaces

    if type(space) is spaces.Dict:
        return [leaf for key, sub in space.spaces.items() for leaf in _leaves(sub, (*path, key))]
    if type(space) is spaces.Tuple:
        return [leaf for k, sub in enumerate(space.spaces) for leaf in _leaves(sub, (*path, k))]
    plain = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    if isinstance(space, plain):
        return [Leaf(path, tuple(space.shape or ()), np.dtype(space.dtype), space)]
    return [Leaf(path, (), OBJECT, space)]


def _take_apart(space: Any, value: Any, out: list[Any]) -> None:
    from gymnasium import spaces

    if type(space) is spaces.Dict:
        for key, sub in space.spaces.items():
            _take_apart(sub, value[key], out)
    elif type(space) is spaces.Tuple:
        if len(value) != len(space.spaces):
            raise TypeError(f"expected a tuple of {len(space.spaces)}, got {len(value)}")
        for sub, part in zip(space.spaces, value, strict=True):
            _take_apart(sub, part, out)
    else:
        out.append(value)


def _put_together(space: Any, values: Any) -> Any:
    from gymnasium import spaces

    if type(space) is spaces.Dict:
        return {key: _put_together(sub, values) for key, sub in space.spaces.items()}
    if type(space) is spaces.Tuple:
        return tuple(_put_together(sub, values) for sub in space.spaces)
    return next(values)


def is_mask(leaf: Leaf) -> bool:
    """Whether this leaf of an observation says which actions are legal."""
    return bool(leaf.path) and leaf.path[-1] == "action_mask" and leaf.dtype.kind in "iub"


def filler(leaf: Leaf) -> Any:
    """What stands for an absent agent: zero clipped into the space; all True for a mask.

    A mask of all False would make a softmax over legal actions NaN.
    """
    from gymnasium import spaces

    if leaf.dtype == OBJECT:
        return None
    if is_mask(leaf):
        return np.ones(leaf.shape, leaf.dtype)
    zero: Array = np.zeros(leaf.shape, leaf.dtype)
    space = leaf.space
    if isinstance(space, spaces.Box):
        return np.clip(zero, space.low, space.high).astype(leaf.dtype)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        size = space.n if isinstance(space, spaces.Discrete) else space.nvec
        return np.clip(zero, space.start, space.start + size - 1).astype(leaf.dtype)
    return zero
