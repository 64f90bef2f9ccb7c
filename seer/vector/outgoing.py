"""Actions on their way out: from the arrays into what an environment is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cells import Cell
from .contract import Actions, VecSpec

__all__ = ["ActionRows"]


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
        self._plain = len(spec.groups) == 1 and group.action.single and group.action.batchable
        self._range = (lo, hi)
        self._made: list[list[Any]] | None = None
        self.table: dict[int, Any] | None = None  # number -> ready-made scalar of it
        self._numbers: list[list[Any]] | None = None
        self._ready = actions.ready
        if self._ready is None and self._plain and group.action.leaves[0].shape == ():
            block = actions.leaves[0][0][lo:hi]
            self.table = group.action.choices
            self._numbers = block.tolist() if self.table else [list(row) for row in block]

    @property
    def _blocks(self) -> list[list[Any]]:
        if self._made is None:
            lo, hi = self._range
            self._made = [
                [None if leaf is None else leaf[lo:hi].copy() for leaf in leaves]
                for leaves in self._actions.leaves
            ]
        return self._made

    def rows(self, envs: list[int]) -> list[Any]:
        """`row` of each of these."""
        made = self._ready if self._ready is not None else self._numbers
        if made is not None and len(made) == len(envs):
            return made  # of all of them
        return [self.row(env) for env in envs]

    def row(self, env: int) -> Any:
        """The actions of all agents of an environment, in slot order; see `table`.

        Or the dict of them, where it was ready-made.
        """
        row = env - self._lo
        if self._ready is not None:
            return self._ready[env]
        if self._numbers is not None:
            return self._numbers[row]
        if self._plain:
            return list(self._blocks[0][0][row])
        return [self.one(row, g, k) for g, k in self._spec.where]

    def lone(self, env: int) -> Any:
        """The action of an environment with one agent."""
        if self._ready is not None:
            (action,) = self._ready[env].values()
            return action
        if self._numbers is None:
            return self.one(env - self._lo, 0, 0)
        number = self._numbers[env - self._lo][0]
        return number if self.table is None else self.table.get(number, number)

    def lones(self, envs: Sequence[int]) -> list[Any]:
        """`lone` of many environments."""
        if self._ready is not None or self._numbers is None:
            return [self.lone(env) for env in envs]
        numbers, lo, table = self._numbers, self._lo, self.table
        if table is None:
            return [numbers[env - lo][0] for env in envs]
        return [table.get(numbers[env - lo][0], numbers[env - lo][0]) for env in envs]

    def one(self, row: int, g: int, k: int) -> Any:
        """The action of one agent."""
        values = [block[row, k] for block in self._blocks[g]]
        tree = self._spec.groups[g].action
        return values[0] if tree.single else tree.build(values)

    def of(self, cell: Cell, slots: Sequence[int | None]) -> dict[str, Any]:
        """The actions of the live agents of one environment."""
        if self._ready is not None:
            return {agent: self._ready[cell.index][agent] for agent in cell.live}
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
