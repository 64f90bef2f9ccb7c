"""The spaces of a vector: of one agent, of all its copies, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UnknownAgentError
from .contract import VecSpec

__all__ = ["Lazy", "VectorSpaces", "unknown_agent"]


class Lazy(Mapping[str, Any]):
    """Name -> what `make` gives for it, made once."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Any]) -> None:
        self._names, self._make = dict.fromkeys(names), make
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._names:
                raise unknown_agent(name, self._names)
            self._made[name] = self._make(name)
        return self._made[name]

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
        self.groups = {g.name: (g.observation_space, g.action_space) for g in spec.groups}
        self._seed: int | None = None

    @property
    def envs(self) -> list[Mapping[str, tuple[Any, Any]]]:
        """Per environment {agent: (observation space, action space)}."""
        if self._spec.env_spaces is not None:
            return list(self._spec.env_spaces)
        both = Lazy(self._spec.agents, lambda a: (self.observation[a], self.action[a]))
        return [both] * self._spec.num_envs

    def seed(self, seed: int) -> None:
        """Seed all spaces, each differently."""
        self._seed = seed
        for at, spaces in enumerate(
            (self.observation, self.action, self.batched_observation, self.batched_action)
        ):
            for k, space in enumerate(spaces.values()):
                space.seed(seed + 4 * k + at)

    def _one(self, agent: str, which: int) -> Any:
        import copy

        g, k = self._spec.where[self._spec.slot[agent]]
        group = self._spec.groups[g]
        spaces = group.observation_spaces if which == 0 else group.action_spaces
        # Its own object for each agent, so that each can be seeded.
        return copy.deepcopy(spaces[k])

    def _batched(self, space: Any) -> Any:
        from gymnasium.vector.utils import batch_space

        return batch_space(space, self._spec.num_envs)


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
