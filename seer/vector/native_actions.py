"""Actions on their way into an engine: whose count, and which do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine import Engine
from ..errors import ActionError
from ..types import Array, BoolArray
from .contract import Actions, VecSpec

__all__ = ["Intake", "indices", "worlds_mask"]


class Intake:
    """Writes the actions of who is live into the engine's column.

    What lies there for the others stays: a model may still read it.

    Args:
        spec: of the vector.
        engine: with its worlds.
        slots: of each group.
        space: one agent's action space.
    """

    def __init__(self, spec: VecSpec, engine: Engine, slots: Sequence[Any], space: Any) -> None:
        self._spec, self._engine, self._slots = spec, engine, slots
        self._shape = spec.num_envs, len(spec.agents)
        self._choices = _choices(space)
        self._absent: Array = np.zeros(0, np.int64)
        self._held: Array = np.zeros(0)
        self.actions = Actions(spec)
        """Where the caller writes; the engine's own column, if that has the form of the space."""
        self._direct = False
        if len(spec.groups) == 1:
            mine, column = self.actions.leaves[0][0], engine.action
            if (mine.shape, mine.dtype) == (column.shape, column.dtype):
                self.actions = Actions(spec, [[column]])
                self._direct = True
                # (N · A,) an agent's action as one item: a third of the time of an array's row
                item = column[0, 0].nbytes
                self._rows = column.reshape(mine.shape[0] * mine.shape[1], -1).view(f"V{item}")[
                    :, 0
                ]

    def keep(self, absent: Array) -> None:
        """Remember what lies in the column for who is not live.

        Args:
            absent: who is not: indices in (N, A) laid end to end.
        """
        if self._direct:
            self._absent, self._held = absent, self._rows[absent]

    def restore(self) -> None:
        """Put back what the caller has written over for who is not live."""
        if self._absent.size:
            self._rows[self._absent] = self._held

    def take(self, envs: Array | None, live: BoolArray, everybody: bool) -> None:
        """Hand `actions` to the engine, and have it look at them.

        Args:
            envs: of which worlds; None: all.
            live: (N, A) bool.
            everybody: all of them are.

        Raises:
            ActionError: names the world and the agent.
        """
        if self._direct:
            self.restore()
            if self._choices is not None:
                self._refuse_choices(self._engine.action, live, slice(None), None)
        else:
            self._write(envs, live, everybody)
        assert self._engine._actions is not None  # an environment has actions
        self._engine._actions.take(None, worlds_mask(self._shape[0], envs))

    def _write(self, envs: Array | None, live: BoolArray, everybody: bool) -> None:
        """Copy the actions of who is live into the column."""
        rows: Any = slice(None) if envs is None else envs
        column, live = self._engine.action, live[rows]
        for slots, leaves in zip(self._slots, self.actions.leaves, strict=True):
            given, who = leaves[0][rows], live[:, slots]
            if self._choices is not None:
                self._refuse_choices(given, who, slots, envs)
            old = column[rows][:, slots]
            where: Any = True if everybody else who.reshape(who.shape + (1,) * (old.ndim - 2))
            with np.errstate(over="ignore"):  # what becomes infinite is found by the engine
                np.copyto(old, given.reshape(old.shape), casting="unsafe", where=where)
            if envs is not None or not isinstance(slots, slice):  # else it is a view
                worlds, agents = (np.arange(size) for size in self._shape)
                column[np.ix_(worlds[rows], agents[slots])] = old

    def _refuse_choices(
        self, given: Array, live: BoolArray, slots: Any, envs: Array | None
    ) -> None:
        """Actions of a discrete space that do not exist."""
        assert self._choices is not None
        low, high = self._choices
        outside = (given < low) | (given > high)
        if not outside.any():
            return
        wrong = outside.reshape(*live.shape, -1).any(axis=2) & live
        if wrong.any():
            row, k = (int(x) for x in np.argwhere(wrong)[0])
            env = row if envs is None else int(envs[row])
            agent = self._spec.agents[np.arange(self._shape[1])[slots][k]]
            raise ActionError(
                f"{self._spec.name}: environment {env}, agent {agent!r}: expected an action from "
                f"{np.asarray(low).tolist()} to {np.asarray(high).tolist()}, got "
                f"{given[row, k].tolist()}",
                world=env, agent=agent,
            )  # fmt: skip


def _choices(space: Any) -> tuple[Any, Any] | None:
    """Lowest and highest action of a discrete space; None for a box."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return (0, 1) if isinstance(space, spaces.MultiBinary) else None


def indices(slots: Array) -> Any:
    """Slots as a slice where they are in a row."""
    first, count = int(slots[0]), len(slots)
    if (slots == np.arange(first, first + count)).all():
        return slice(first, first + count)
    return slots


def worlds_mask(count: int, envs: Array | None, but: BoolArray | None = None) -> Array | None:
    """(count,) uint8, 1 for `envs` (None: all) except in the rows `but`; None: all."""
    if envs is None:
        return None if but is None else (~but).view(np.uint8)
    mask = np.zeros(count, np.uint8)
    mask[envs if but is None else envs[~but]] = 1
    return mask
