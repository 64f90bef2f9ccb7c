"""The spaces of a vector: of one agent, of all its copies, made when they are asked for."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UnknownAgentError
from .contract import VecSpec

__all__ = ["Lazy", "VectorSpaces", "unknown_agent"]


class Lazy(Mapping[str, Any]):
    """Name -> what `make` gives for it, made once.

    Attributes:
        made: what was asked for so far.
    """

    def __init__(self, names: Sequence[str], make: Callable[[str], Any]) -> None:
        self._names, self._make = dict.fromkeys(names), make
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            if name not in self._names:
                raise unknown_agent(name, self._names)
            self.made[name] = self._make(name)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {self[name]!r}" for name in self) + "}"


class VectorSpaces:
    """The spaces that a vector shows; each is always the same object.

    Args:
        spec: of the vector.

    Attributes:
        observation, action: agent -> space of one environment.
        batched_observation, batched_action: agent -> space of all N.
        groups: group -> (observation space, action space) of one agent.
        envs: envs[i][agent] -> (observation space, action space).
    """

    def __init__(self, spec: VecSpec) -> None:
        self._spec = spec
        self.observation = Lazy(spec.agents, lambda agent: self._one(agent, 0))
        self.action = Lazy(spec.agents, lambda agent: self._one(agent, 1))
        self.batched_observation = Lazy(
            spec.agents, lambda agent: self._batched(self.observation[agent])
        )
        self.batched_action = Lazy(spec.agents, lambda agent: self._batched(self.action[agent]))
        self.groups = {
            g.name: (copy.deepcopy(g.observation_space), copy.deepcopy(g.action_space))
            for g in spec.groups
        }
        self._seed: int | None = None
        self.envs: list[Mapping[str, tuple[Any, Any]]]
        if spec.env_spaces is None:
            both = Lazy(spec.agents, lambda agent: (self.observation[agent], self.action[agent]))
            self.envs = [both] * spec.num_envs
        else:
            self.envs = [
                Lazy(tuple(spaces), functools.partial(self._of_env, env))
                for env, spaces in enumerate(spec.env_spaces)
            ]

    def seed(self, seed: int) -> None:
        """Seed all spaces, each differently."""
        self._seed = seed
        for at, spaces in enumerate(
            (self.observation, self.action, self.batched_observation, self.batched_action)
        ):
            for k, space in enumerate(spaces.values()):
                space.seed(seed + 4 * k + at)
        for k, pair in enumerate(self.groups.values()):
            _seed_pair(pair, (seed, 1, k))
        if self._spec.env_spaces is not None:
            for env, made in enumerate(self.envs):
                for agent, pair in getattr(made, "made", {}).items():
                    _seed_pair(pair, (seed, 2, env, self._spec.slot[agent]))

    def _of_env(self, env: int, agent: str) -> tuple[Any, Any]:
        """The spaces of an agent in an environment that differs from others."""
        assert self._spec.env_spaces is not None
        pair = copy.deepcopy(self._spec.env_spaces[env][agent])
        if self._seed is not None:
            _seed_pair(pair, (self._seed, 2, env, self._spec.slot[agent]))
        return pair

    def _one(self, agent: str, which: int) -> Any:
        g, k = self._spec.where[self._spec.slot[agent]]
        group = self._spec.groups[g]
        spaces = group.observation_spaces if which == 0 else group.action_spaces
        # Its own object for each agent, so that each can be seeded.
        return copy.deepcopy(spaces[k])

    def _batched(self, space: Any) -> Any:
        from gymnasium.vector.utils import batch_space

        return batch_space(space, self._spec.num_envs)


def _seed_pair(pair: tuple[Any, Any], what: tuple[int, ...]) -> None:
    for space, seed in zip(pair, np.random.SeedSequence(what).generate_state(2), strict=True):
        space.seed(int(seed))


def unknown_agent(name: Any, known: Any, where: str = "") -> UnknownAgentError:
    """The error for a name that no agent has, with the nearest that one has."""
    import difflib

    close = difflib.get_close_matches(str(name), list(known), 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return UnknownAgentError(
        f"{where}there is no agent {name!r}{hint} (there are {len(known)}: "
        f"{', '.join(map(repr, list(known)[:6]))}{', …' if len(known) > 6 else ''})",
        agent=name,
        nearest=close[0] if close else None,
    )
