"""The spaces of a model's agents, made when they are asked for."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .errors import ConfigError, UnknownAgentError
from .model import EventModel

__all__ = ["AgentSpaces", "space_of"]


class AgentSpaces(Mapping[str, Any]):
    """Agent -> space. Each agent has its own, so that each can be seeded; made when first asked
    for, since a hundred thousand of them take seconds.
    """

    def __init__(self, agents: list[str], space: Any) -> None:
        self._agents = dict.fromkeys(agents)
        self._space = space
        self._made: dict[str, Any] = {}

    def __getitem__(self, agent: str) -> Any:
        known = isinstance(agent, str)
        space = self._made.get(agent) if known else None
        if space is None:
            if not known or agent not in self._agents:
                raise UnknownAgentError(
                    f"there is no agent {agent!r}; there are {len(self._agents)}, from "
                    f"{next(iter(self._agents))!r}",
                    agent=agent,
                )
            space = self._made[agent] = copy.deepcopy(self._space)
        return space

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)


def space_of(model: EventModel, role: str) -> Any:
    """What the model says an agent's space is, or a box over the column's dtype."""
    from gymnasium import spaces

    column = model.spec.role(role)
    assert column is not None
    make = getattr(model, f"{role}_space", None)
    try:
        space = make(model.p) if make is not None else None
    except Exception as error:
        raise ConfigError(
            f"{model.spec.name}.{role}_space could not be computed: {error!r}"
        ) from error
    if space is None:
        if column.dtype.kind == "f":
            return spaces.Box(-np.inf, np.inf, column.shape, column.dtype)
        limits = np.iinfo(column.dtype)
        return spaces.Box(limits.min, limits.max, column.shape, column.dtype)
    if not isinstance(space, spaces.Space):
        raise ConfigError(
            f"{model.spec.name}.{role}_space must give a gymnasium space, got {space!r}"
        )
    if role == "observation" and (space.shape != column.shape or space.dtype != column.dtype):
        raise ConfigError(
            f"{model.spec.name}.observation_space has shape {space.shape} and dtype "
            f"{space.dtype}, its column has {column.shape} and {column.dtype}"
        )
    return space
