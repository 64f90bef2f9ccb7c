"""One description of the whole vector from those of its environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from .contract import Mode, VecSpec, group_agents
from .describe import EnvDescription
from .leaves import Tree

__all__ = ["merge"]

Spaces = tuple[Any, Any]


def merge(
    descriptions: Sequence[EnvDescription],
    *,
    mode: Mode = "next_step",
    options: Any = None,
    groups: Any = None,
    max_agents: int | None = None,
    open_names: bool = False,
    name: str = "vec",
) -> VecSpec:
    """Put the descriptions of all environments together.

    Agents are all that any environment announces, in the order of first mention. Spaces may
    differ between environments in their bounds, not in what an array must hold.

    Args:
        descriptions: (N,) one for each; the same object where environments are alike.
        mode: of automatic resets.
        options: of automatic resets.
        groups: as `contract.group_agents` takes them.
        max_agents: slots for agents that may appear without having been announced, besides the
            announced ones.
        open_names: agents without a slot are no error.
        name: for messages.

    Raises:
        ConfigError: the environments are of different kinds, an agent's spaces differ in shape,
            dtype or structure, or agents are not announced.
    """
    first = descriptions[0]
    for env, other in enumerate(descriptions):
        if other.kind != first.kind:
            raise ConfigError(
                f"make_vec: environment 0 ({first.name}) is {_KINDS[first.kind]}, environment "
                f"{env} ({other.name}) is {_KINDS[other.kind]}; a vector has one kind"
            )
    agents, spaces, reserved = _agents(descriptions, max_agents)
    differing = _differing(descriptions, spaces)
    return VecSpec(
        num_envs=len(descriptions),
        agents=tuple(agents),
        groups=group_agents(agents, spaces, _with_reserved(groups, agents, spaces, reserved)),
        kind=first.kind,
        mode=mode,
        options=options,
        reserved=reserved,
        open_names=open_names,
        has_state=all(d.has_state for d in descriptions),
        env_spaces=differing,
        metadata=dict(first.metadata),
        render_mode=first.render_mode,
        spec=first.spec,
        name=name,
    )


_KINDS = {
    "parallel": "a ParallelEnv",
    "aec": "an AECEnv",
    "gymnasium": "a Gymnasium Env",
}


def _agents(
    descriptions: Sequence[EnvDescription], max_agents: int | None
) -> tuple[list[str], dict[str, Spaces], int]:
    """Everybody in slot order with the spaces of who mentions them first, and how many of the
    last are reserved.
    """
    agents: dict[str, None] = {}
    spaces: dict[str, Spaces] = {}
    seen: set[int] = set()
    for env, description in enumerate(descriptions):
        if id(description) in seen:
            continue
        seen.add(id(description))
        if description.agents is None:
            raise ConfigError(
                f"make_vec: environment {env} ({description.name}) has no possible_agents, so "
                "there is nobody to make arrays for before its first reset; set "
                "possible_agents to every name that may appear (or let make_vec probe, without "
                "isolation: it resets an extra instance to see who is there)"
            )
        for agent in description.agents:
            agents.setdefault(agent)
        for agent, pair in description.spaces.items():
            spaces.setdefault(agent, pair)
    listed = list(agents)
    if max_agents is None:
        return listed, spaces, 0
    if descriptions[0].kind == "gymnasium":
        raise ConfigError(
            f"max_agents={max_agents}: only agents of a multi-agent environment may appear "
            f"unannounced; {descriptions[0].name} is {_KINDS[descriptions[0].kind]}"
        )
    model = next(iter(spaces.values()))
    for k in range(max_agents):
        slot = f"reserved_{k}"
        while slot in agents:
            slot = f"_{slot}"
        listed.append(slot)
        spaces[slot] = model
    return listed, spaces, max_agents


def _with_reserved(
    groups: Any, agents: list[str], spaces: Mapping[str, Spaces], reserved: int
) -> Any:
    """The grouping, extended to reserved slots where the caller couldn't name them."""
    if not reserved:
        return groups
    free = agents[len(agents) - reserved :]
    if isinstance(groups, Mapping):
        if any(agent in members for members in groups.values() for agent in free):
            return groups
        return {**groups, "reserved": free}
    if groups is None:
        # Who appears may be of any group, unless there is only one.
        found = group_agents(agents[: len(agents) - reserved], spaces, None)
        return {found[0].name: agents} if len(found) == 1 else None
    return groups


def _differing(
    descriptions: Sequence[EnvDescription], spaces: Mapping[str, Spaces]
) -> list[dict[str, Spaces]] | None:
    """Every environment's own spaces where any differ, after checking that arrays can hold all."""
    checked: dict[int, bool] = {}
    equal: dict[tuple[int, int], bool] = {}  # environments often have one space for all agents
    for env, description in enumerate(descriptions):
        if id(description) in checked:
            continue
        same = True
        for agent, pair in description.spaces.items():
            common = spaces[agent]
            for which, mine, first in zip(_SPACES, pair, common, strict=True):
                key = (id(mine), id(first))
                if key not in equal:
                    equal[key] = _equal(mine, first)
                if not equal[key]:
                    same = False
                    _check_alike(which, agent, env, mine, first, descriptions)
        checked[id(description)] = same
    if all(checked.values()):
        return None
    return [{**spaces, **description.spaces} for description in descriptions]


_SPACES = ("observation", "action")


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is type(b) and type(a).__name__ == "Box":  # whose own comparison is slow
        alike = a.shape == b.shape and a.dtype == b.dtype
        if alike and bool((a.low == b.low).all()) and bool((a.high == b.high).all()):
            return True
    return bool(a == b)


def _check_alike(
    which: str,
    agent: str,
    env: int,
    mine: Any,
    first: Any,
    descriptions: Sequence[EnvDescription],
) -> None:
    a, b = Tree(first).leaves, Tree(mine).leaves
    if [(x.path, x.shape, x.dtype) for x in a] == [(x.path, x.shape, x.dtype) for x in b]:
        return
    origin = next(k for k, d in enumerate(descriptions) if agent in d.spaces)
    raise ConfigError(
        f"make_vec: the {which} spaces of agent {agent!r} differ in more than their bounds: "
        f"{first} in environment {origin}, {mine} in environment {env}; pad them to one shape and "
        "dtype, or give the agents different names"
    )
