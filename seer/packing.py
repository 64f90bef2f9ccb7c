"""Actions on their way in: from a dict of anything to rows of the engine's action column.

Names, kinds of numbers and shapes are checked here, and whether a discrete choice exists; that
what is written is finite and inside a box is checked by the engine.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from .errors import ActionError, ConfigError, UnknownAgentError
from .types import Array

__all__ = ["ActionPacker"]


class ActionPacker:
    """Checks the actions of one world and writes them to its action column.

    Args:
        name: of the environment, for messages.
        agents: every agent's name, in the column's order.
        space: one agent's action space: Box, Discrete, MultiDiscrete or MultiBinary.
        column: (agents, ...) what the engine reads.
    """

    def __init__(self, name: str, agents: list[str], space: Any, column: Array) -> None:
        from gymnasium import spaces

        self.name, self._column = name, column
        self._known = dict.fromkeys(agents)
        self._shape: tuple[int, ...] = tuple(space.shape)
        if isinstance(space, spaces.Discrete):
            low, high = space.start, space.start + space.n - 1
        elif isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            low, high = 0, 1
        elif isinstance(space, spaces.Box):
            low, high = space.low, space.high
        else:
            raise ConfigError(
                f"{name}: actions may be Box, Discrete, MultiDiscrete or MultiBinary, got {space}"
            )
        self._low = np.broadcast_to(np.asarray(low), self._shape)
        self._high = np.broadcast_to(np.asarray(high), self._shape)
        self._width = self._low.size
        if column[0].size != self._width:
            raise ConfigError(
                f"{name}: {space} has {self._width} components, the action column {column[0].size}"
            )
        self._choice = not isinstance(space, spaces.Box)
        # What may stand for what: a choice must be whole, a box of floats takes whole numbers.
        self._kinds = "iu" if space.dtype.kind in "iu" else "iuf"
        self._room = np.empty((len(agents), self._width), column.dtype)

    def pack(self, actions: Mapping[str, Any], agents: list[str], rows: Array | None) -> None:
        """Write the agents' actions into their rows.

        Args:
            actions: agent -> action.
            agents: who must act, in order.
            rows: their rows in the column; None: all.

        Raises:
            ActionError: see `seer.env.ParallelEnv.step`.
            UnknownAgentError: no agent has such a name.
        """
        values = self._ordered(actions, agents)
        block = self._room[: len(agents)]
        if not self._gather(values, block):
            self._gather_slowly(values, block, agents)
        target = self._column.reshape(len(self._column), self._width)
        if rows is None:
            target[:] = block
        else:
            target[rows] = block

    def _ordered(self, actions: Any, agents: list[str]) -> list[Any]:
        """The values in the agents' order; exactly these agents must be there."""
        if not isinstance(actions, Mapping):
            raise ActionError(
                f"{self.name}: actions must be a dict of agent to action, got "
                f"{type(actions).__name__}"
            )
        if list(actions) == agents:
            return list(actions.values())
        if len(actions) == len(agents):
            try:
                return [actions[agent] for agent in agents]
            except KeyError:
                pass
        return self._refuse_keys(actions, agents)

    def _refuse_keys(self, actions: Mapping[str, Any], agents: list[str]) -> NoReturn:
        live = set(agents)
        unknown = [key for key in actions if key not in self._known]
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), self._known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            raise UnknownAgentError(
                f"{self.name}: actions name an agent {unknown[0]!r}{more}, which does not exist"
                f"{hint}",
                agent=unknown[0], nearest=close[0] if close else None,
            )  # fmt: skip
        missing = [agent for agent in agents if agent not in actions]
        if missing:
            self._refuse(
                missing[0],
                f"no action for {_names(missing)}; every live agent needs one "
                f"({len(agents)} expected, {len(actions)} came)",
            )
        surplus = [key for key in actions if key not in live]
        self._refuse(
            surplus[0],
            f"an action for {_names(surplus)}, which is dead and no longer in env.agents",
        )

    def _gather(self, values: list[Any], block: Array) -> bool:
        """The fast way, for vectors and single numbers; False where it doesn't apply."""
        try:
            if self._shape == ():
                row = np.array(values)
                if row.shape != (len(values),) or row.dtype.kind not in self._kinds:
                    return False
                if self._choice and (row.min() < self._low or row.max() > self._high):
                    return False
                block[:, 0] = row
                return True
            if self._choice or len(self._shape) != 1:
                return False
            # They are all vectors if this succeeds, and then their lengths are their shapes.
            with np.errstate(over="ignore"):
                np.concatenate(values, out=block.reshape(-1), casting="same_kind")
            return set(map(len, values)) == {self._width}
        except Exception:  # a tensor of another library may raise what it likes; it is named below
            return False

    def _gather_slowly(self, values: list[Any], block: Array, agents: list[str]) -> None:
        """One by one: lists, tensors, other shapes; and to name what is wrong."""
        for k, (agent, value) in enumerate(zip(agents, values, strict=True)):
            what = f"the action of {agent!r}"
            if value is None:
                self._refuse(agent, f"{what} is None; every live agent must act")
            try:
                row = np.asarray(value)
            except Exception as error:
                self._refuse(agent, f"{what} is no array: {error}")
            if row.dtype.kind not in self._kinds:
                want = "whole numbers" if self._kinds == "iu" else "real numbers"
                self._refuse(agent, f"{what}: expected {want}, got dtype {row.dtype}")
            if row.shape != self._shape:
                self._refuse(agent, f"{what}: expected shape {self._shape}, got {row.shape}")
            if self._choice and ((row < self._low) | (row > self._high)).any():
                low, high = self._low.tolist(), self._high.tolist()
                self._refuse(agent, f"{what}: expected {low} to {high}, got {row.tolist()}")
            with np.errstate(over="ignore"):
                block[k] = row.reshape(-1)

    def _refuse(self, agent: str, text: str) -> NoReturn:
        raise ActionError(f"{self.name}: {text}", world=0, agent=agent)


def _names(agents: list[Any]) -> str:
    more = f" and {len(agents) - 1} more" if len(agents) > 1 else ""
    return f"{agents[0]!r}{more}"
