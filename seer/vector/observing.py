"""What wrappers that change observations have in common.

They see whole arrays: for each group and each leaf of its observation (rows, A_g, …).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from .leaves import Leaf, Tree
from .spaces import Lazy
from .wrapping import Rows, VectorWrapper

__all__ = ["Arrays", "Last", "ObservationWrapper", "rebuilt"]

Arrays = list[list[Any]]
"""[group][leaf] (rows, A_g, …)."""
Last = tuple[int, int, int, Sequence[Any]]
"""A last observation: row, group, index in the group, leaves."""


class ObservationWrapper(VectorWrapper):
    """Changes observations, leaf by leaf.

    Attributes:
        observation_spaces, batched_observation_spaces, group_spaces, env_spaces: as changed.
    """

    layouts = ("dict", "stacked")

    def __init__(self, vec: Any) -> None:
        super().__init__(vec)
        spec = self._spec_of
        inside = vec.group_spaces
        self._in = [Tree(inside[group.name][0]) for group in spec.groups]
        for group, tree in zip(spec.groups, self._in, strict=True):
            if not tree.batchable:
                raise ConfigError(
                    f"{type(self).__name__}: the observations of group {group.name!r} can't be "
                    f"batched into arrays: {tree.space}"
                )
        self.group_spaces = {
            group.name: (self._space(g, group.agents[0], inside[group.name][0]),
                         inside[group.name][1])
            for g, group in enumerate(spec.groups)
        }  # fmt: skip
        self._out = [Tree(self.group_spaces[group.name][0]) for group in spec.groups]
        self.observation_spaces = Lazy(spec.agents, lambda agent: self._space(
            spec.where[spec.slot[agent]][0], agent, vec.observation_spaces[agent]))  # fmt: skip
        self.batched_observation_spaces = Lazy(
            spec.agents, lambda agent: _batch(self.observation_spaces[agent], spec.num_envs)
        )

    # ---- what a wrapper does

    def _space(self, g: int, agent: str, space: Any) -> Any:
        """The space of an agent of group g that had `space`."""
        raise NotImplementedError

    def _observe(self, rows: Rows, arrays: Arrays) -> Arrays:
        """Observations as they are shown: new arrays where something changes."""
        raise NotImplementedError

    def _finish(self, rows: Rows, row: int, g: int, k: int, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of the last observation of agent k of group g; called before `_observe`."""
        raise NotImplementedError

    def _learn(self, rows: Rows, arrays: Arrays, finals: list[Last]) -> None:
        """Look at everything that was observed in a step, before any of it is changed."""

    # ---- what it is called by

    @property
    def env_spaces(self) -> list[Mapping[str, tuple[Any, Any]]]:
        """Per environment {agent: (observation space, action space)}."""
        if self._spec_of.env_spaces is None:
            both = Lazy(self._spec_of.agents, lambda agent: (
                self.observation_spaces[agent], self.vec.action_spaces[agent]))  # fmt: skip
            return [both] * self._spec_of.num_envs
        where, slot = self._spec_of.where, self._spec_of.slot
        return [
            {agent: (self._space(where[slot[agent]][0], agent, seen), act)
             for agent, (seen, act) in spaces.items()}
            for spaces in self.vec.env_spaces
        ]  # fmt: skip

    def seed_spaces(self, seed: int) -> None:
        """Seed every action and observation space, so that what they sample can be repeated."""
        self.vec.seed_spaces(seed)
        for k, space in enumerate(
            [*self.observation_spaces.values(), *self.batched_observation_spaces.values()]
        ):
            space.seed(seed + k)

    def _after_reset(self, rows: Rows, obs: Any, infos: Any) -> tuple[Any, Any]:
        arrays = self._taken(obs)
        self._learn(rows, arrays, [])
        return self._shown(self._observe(rows, arrays)), infos

    def _after(
        self, rows: Rows, obs: Any, rewards: Any, terms: Any, truncs: Any, infos: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        arrays = self._taken(obs)
        finals: list[Last] = []
        if self._spec_of.mode == "same_step" and "final_obs" in infos:
            finals = self._lasts(rows, infos["final_obs"])
        self._learn(rows, arrays, finals)
        for row, g, k, leaves in finals:
            agent = self._spec_of.groups[g].agents[k]
            last = self._out[g].build(self._finish(rows, row, g, k, leaves))
            infos["final_obs"][agent][row] = last
        return self._shown(self._observe(rows, arrays)), rewards, terms, truncs, infos

    def _lasts(self, rows: Rows, finals: dict[str, Any]) -> list[Last]:
        found: list[Last] = []
        for slot, agent in enumerate(self._spec_of.agents):
            g, k = self._spec_of.where[slot]
            for row in np.flatnonzero(rows.over).tolist():
                value = finals[agent][row]
                if value is not None:
                    found.append((row, g, k, self._in[g].flatten(value)))
        return found

    def _taken(self, obs: Any) -> Arrays:
        """[group][leaf] (rows, A_g, …) of the layout's form."""
        groups = self._spec_of.groups
        if self.unwrapped.layout == "stacked":
            return [
                list(tree.flatten(obs[group.name]))
                for group, tree in zip(groups, self._in, strict=True)
            ]
        out = []
        for group, tree in zip(groups, self._in, strict=True):
            each = [tree.flatten(obs[agent]) for agent in group.agents]
            out.append([np.stack(parts, 1) for parts in zip(*each, strict=True)])
        return out

    def _shown(self, arrays: Arrays) -> Any:
        """The layout's form of [group][leaf] (rows, A_g, …)."""
        groups = self._spec_of.groups
        if self.unwrapped.layout == "stacked":
            return {
                group.name: tree.build(leaves)
                for group, tree, leaves in zip(groups, self._out, arrays, strict=True)
            }
        out = {}
        for group, tree, leaves in zip(groups, self._out, arrays, strict=True):
            for k, agent in enumerate(group.agents):
                out[agent] = tree.build([leaf[:, k] for leaf in leaves])
        return {agent: out[agent] for agent in self._spec_of.agents}


def rebuilt(space: Any, change: Any, path: tuple[Any, ...] = ()) -> Any:
    """A space with each leaf replaced by what ``change(Leaf)`` gives."""
    from gymnasium import spaces

    if type(space) is spaces.Dict:
        # In the same order: Gymnasium sorts the keys of a plain dict.
        return spaces.Dict(
            OrderedDict((key, rebuilt(sub, change, (*path, key))) for key, sub in space.items())
        )
    if type(space) is spaces.Tuple:
        return spaces.Tuple(
            [rebuilt(sub, change, (*path, k)) for k, sub in enumerate(space.spaces)]
        )
    return change(Leaf(path, tuple(space.shape), np.dtype(space.dtype), space))


def _batch(space: Any, count: int) -> Any:
    from gymnasium.vector.utils import batch_space

    return batch_space(space, count)
