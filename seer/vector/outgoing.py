"""Actions on their way out: from the arrays into what an environment is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cells import Cell
from .contract import Actions, VecSpec

__all__ = ["ActionRows"]

_FEW = 4096
"""The largest discrete space whose choices are kept as ready-made scalars."""

_CHOICES: dict[tuple[str, int], dict[int, Any]] = {}


class ActionRows:
    """The actions of a range of environments in one step, copied once for all.

    Environments may keep what they are given: nothing of it is written again.

    Args:
        spec: of the vector.
        actions: the arrays.
        lo, hi: the range.
    """

    def __init__(self, spec: VecSpec, actions: Actions, lo: int, hi: int) -> None:
        self._spec, self._actions, self._lo = spec, actions, lo
        group = spec.groups[0]
        self._plain = len(spec.groups) == 1 and group.action.single
        self._range = (lo, hi)
        self._made: list[list[Any]] | None = None
        self._scalars: list[list[Any]] | None = None
        if self._plain and group.action.leaves[0].shape == ():
            self._scalars = _scalars(actions.leaves[0][0][lo:hi], group.action.leaves[0])

    @property
    def _blocks(self) -> list[list[Any]]:
        if self._made is None:
            lo, hi = self._range
            self._made = [
                [None if leaf is None else leaf[lo:hi].copy() for leaf in leaves]
                for leaves in self._actions.leaves
            ]
        return self._made

    def row(self, env: int) -> list[Any]:
        """The actions of all agents of an environment, in slot order."""
        row = env - self._lo
        if self._scalars is not None:
            return self._scalars[row]
        if self._plain:
            return list(self._blocks[0][0][row])
        return [self.one(row, g, k) for g, k in self._spec.where]

    def lone(self, env: int) -> Any:
        """The action of an environment with one agent."""
        return self._scalars[env - self._lo][0] if self._scalars else self.one(env - self._lo, 0, 0)

    def one(self, row: int, g: int, k: int) -> Any:
        """The action of one agent."""
        values = [block[row, k] for block in self._blocks[g]]
        tree = self._spec.groups[g].action
        return values[0] if tree.single else tree.build(values)

    def of(self, cell: Cell, slots: Sequence[int | None]) -> dict[str, Any]:
        """The actions of the live agents of one environment."""
        acts = {}
        beside = self._actions.side.get(cell.index, {})
        for agent, slot in zip(cell.live, slots, strict=True):
            if slot is None:
                acts[agent] = beside[agent]
                continue
            g, k = self._spec.where[slot]
            if self._spec.groups[g].action.batchable:
                acts[agent] = self.one(cell.index - self._lo, g, k)
            else:
                acts[agent] = beside[self._spec.agents[slot]]
        return acts


def _scalars(block: Any, leaf: Any) -> list[list[Any]] | None:
    """Numpy scalars by row: ready-made ones, since making 64 of them takes 5 us."""
    space, kind = leaf.space, leaf.dtype.type
    if getattr(space, "n", _FEW + 1) > _FEW or getattr(space, "start", 0) != 0:
        return [list(row) for row in block]
    key = (leaf.dtype.str, int(space.n))
    table = _CHOICES.get(key)
    if table is None:
        table = _CHOICES[key] = {k: kind(k) for k in range(int(space.n))}
    try:
        return [[table[k] for k in row] for row in block.tolist()]
    except KeyError:  # out of range: the environment is asked what it thinks of it
        return [list(row) for row in block]
