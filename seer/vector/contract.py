"""What every part of the vectorizer passes on: who there is, and what numbers can't carry.

Rows are environments, columns are agents' slots: ``N`` environments, ``A`` agents, ``A_g`` of
them in group ``g``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..errors import ConfigError
from ..types import Array
from .blocks import Block
from .leaves import OBJECT, Tree, filler

__all__ = [
    "FLAGGED", "INFORMED", "OBSERVED", "REWARDED",
    "Actions", "EnvFailure", "Group", "Kind", "Mode", "Side", "VecSpec", "group_agents",
]  # fmt: skip

OBSERVED, REWARDED, FLAGGED, INFORMED = 1, 2, 4, 8
"""Bits of `Frame.seen`: what an environment reported of an agent in this step."""

Kind = Literal["parallel", "aec", "gymnasium", "native"]
Mode = Literal["next_step", "same_step", "disabled"]


NOBODY = -1
"""In the place of an environment's number: it is not known which one it was."""


class EnvFailure(Exception):  # noqa: N818 - it carries an error, and never reaches a user
    """An exception that environment number `env` raised; `__cause__` is that exception.

    What went wrong in a worker comes as one, too, with `NOBODY` where it is of no environment.
    """

    def __init__(self, env: int, error: BaseException) -> None:
        super().__init__(env, error)
        self.env, self.error = env, error


class Group:
    """Agents that share their spaces, hence their arrays.

    Args:
        name: of the group.
        agents: names, in slot order.
        slots: (A_g,) int64, their slots.
        observation_spaces: one for each, equal but for the bounds of boxes.
        action_spaces: the same.

    Attributes:
        observation, action: the trees of the first agent's spaces.
        whole: these are all agents, in order.
    """

    def __init__(
        self,
        name: str,
        agents: Sequence[str],
        slots: Sequence[int],
        observation_spaces: Sequence[Any],
        action_spaces: Sequence[Any],
        total: int,
    ) -> None:
        self.name = name
        self.agents = tuple(agents)
        self.slots: Array = np.asarray(slots, np.int64)
        self.observation_space, self.action_space = observation_spaces[0], action_spaces[0]
        self.observation, self.action = Tree(self.observation_space), Tree(self.action_space)
        self.whole = len(self.agents) == total
        self.observation_spaces, self.action_spaces = observation_spaces, action_spaces
        self._fillers: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.agents)

    @property
    def fillers(self) -> list[Any]:
        """For each leaf of the observation (A_g, ...) what stands for an absent agent."""
        if self._fillers is None:
            first = self.observation_spaces[0]
            if all(space is first or space == first for space in self.observation_spaces):
                rows = [[filler(leaf) for leaf in self.observation.leaves]] * len(self)
            else:
                rows = [[filler(x) for x in Tree(s).leaves] for s in self.observation_spaces]
            self._fillers = [_stacked([row[k] for row in rows], leaf.dtype)
                             for k, leaf in enumerate(self.observation.leaves)]  # fmt: skip
        return self._fillers

    def __repr__(self) -> str:
        return f"Group({self.name!r}, {len(self)} agents)"


def _stacked(values: list[Any], dtype: Any) -> Any:
    if dtype != OBJECT:
        return np.stack(values)
    out = np.empty(len(values), object)
    out[:] = values
    return out


@dataclass
class VecSpec:
    """What a vector of environments is made of.

    Attributes:
        num_envs: N.
        agents: (A,) names in slot order; reserved slots come last.
        groups: every agent is in exactly one.
        kind: where the environments come from.
        mode: what happens when one of them ends.
        options: the options of an automatic reset: None, "last", a dict, or a callable
            (environment, episode) -> dict.
        reserved: how many of the last slots are for agents that were not announced.
        open_names: agents without a slot travel beside the arrays instead of being an error.
        has_state: the environments have ``state()``.
        env_spaces: per environment {agent: (observation space, action space)}; None where all
            are equal to those of the groups.
        metadata: of the first environment.
        render_mode: of the first environment.
        spec: its Gymnasium spec, where it has one.
        name: for messages.
    """

    num_envs: int
    agents: tuple[str, ...]
    groups: tuple[Group, ...]
    kind: Kind
    mode: Mode = "next_step"
    options: Any = None
    reserved: int = 0
    open_names: bool = False
    has_state: bool = False
    env_spaces: list[dict[str, tuple[Any, Any]]] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None
    spec: Any = None
    name: str = "vec"

    def __post_init__(self) -> None:
        self.slot: dict[str, int] = {agent: k for k, agent in enumerate(self.agents)}
        self.where: list[tuple[int, int]] = [(0, 0)] * len(self.agents)
        for g, group in enumerate(self.groups):
            for k, slot in enumerate(group.slots.tolist()):
                self.where[slot] = (g, k)

    @property
    def batchable(self) -> bool:
        """No observation and no action has a part that can't be batched."""
        return all(g.observation.batchable and g.action.batchable for g in self.groups)


class Side:
    """What arrays can't carry of one step; see the attributes. Keys are environments.

    Attributes:
        infos: {env: {agent or shared key: info}}, only those that are not empty.
        columns: numbers in infos that came from another process, until somebody asks for
            `infos`: then they are in there.
        final_infos: {env: {...}}, of the last step of an episode in same-step mode.
        final_state: {env: state} before a same-step reset.
        extras: {env: {"obs"|"rewards"|"terminations"|"truncations"|"live"|"final_obs": {agent:
            value}}} of agents without a slot.
        slots: {env: {agent: slot}} of agents that have a reserved slot.
        final_slots: the same of the episode that ended, in same-step mode.
        objects: {(field, group, leaf): {(env, index in group): value}} of leaves that can't be
            batched; field is "obs" or "final_obs".
    """

    __slots__ = (
        "_infos", "columns", "extras", "final_infos", "final_slots", "final_state", "objects",
        "slots",
    )  # fmt: skip

    def __init__(self) -> None:
        self._infos: dict[int, dict[str, Any]] = {}
        self.columns: list[Block] = []
        self.final_infos: dict[int, dict[str, Any]] = {}
        self.final_state: dict[int, Any] = {}
        self.extras: dict[int, dict[str, dict[str, Any]]] = {}
        self.slots: dict[int, dict[str, int]] = {}
        self.final_slots: dict[int, dict[str, int]] = {}
        self.objects: dict[tuple[str, int, int], dict[tuple[int, int], Any]] = {}

    @property
    def infos(self) -> dict[int, dict[str, Any]]:
        """By environment and agent, all of them."""
        if self.columns:
            for block in self.columns:
                block.fill(self._infos)
            self.columns = []
        return self._infos

    @infos.setter
    def infos(self, infos: dict[int, dict[str, Any]]) -> None:
        self._infos, self.columns = infos, []

    @property
    def rest(self) -> dict[int, dict[str, Any]]:
        """The infos without what is in `columns`."""
        return self._infos

    def __bool__(self) -> bool:
        return bool(
            self._infos or self.columns or self.final_infos or self.final_state or self.extras
            or self.slots or self.final_slots or self.objects
        )  # fmt: skip

    def update(self, other: Side) -> None:
        """Take what another part of the vector has to tell."""
        self._infos.update(other._infos)
        self.columns += other.columns
        self.final_infos.update(other.final_infos)
        self.final_state.update(other.final_state)
        self.extras.update(other.extras)
        self.slots.update(other.slots)
        self.final_slots.update(other.final_slots)
        for key, cells in other.objects.items():
            self.objects.setdefault(key, {}).update(cells)


class Actions:
    """The actions of the next step.

    Args:
        spec: of the vector.
        buffers: for each group and leaf an array (N, A_g, ...) of the action's dtype; None:
            made here. Leaves of dtype object have none.

    Attributes:
        leaves: the arrays, [group][leaf]; None for a leaf of dtype object.
        side: {env: {agent: action}} for agents without a slot, and whole actions of spaces that
            can't be batched.
        ready: one dict of actions for each environment, to be handed on in place of the arrays
            in the next step; used within one process.
    """

    def __init__(self, spec: VecSpec, buffers: list[list[Any]] | None = None) -> None:
        self.leaves: list[list[Any]] = buffers or [
            [
                None if leaf.dtype == OBJECT
                else np.zeros((spec.num_envs, len(group), *leaf.shape), leaf.dtype)
                for leaf in group.action.leaves
            ]
            for group in spec.groups
        ]  # fmt: skip
        self.side: dict[int, dict[str, Any]] = {}
        self.ready: list[dict[str, Any]] | None = None


def group_agents(
    agents: Sequence[str],
    spaces: Mapping[str, tuple[Any, Any]],
    groups: Any = None,
) -> tuple[Group, ...]:
    """Put agents into groups.

    Args:
        agents: all of them, in slot order.
        spaces: agent -> (observation space, action space).
        groups: None: by name without its trailing number, split where spaces differ; "spaces":
            by spaces alone; "all": one group; "each": one for each agent; a dict from a group's
            name to its agents; or a callable from an agent's name to a group's name.

    Raises:
        ConfigError: not of that form; an agent is missing or twice; the agents of a group that
            was asked for have different spaces.
    """
    named = _named(list(agents), spaces, groups)
    slot = {agent: k for k, agent in enumerate(agents)}
    out = []
    for name, members in named.items():
        members = sorted(members, key=slot.__getitem__)
        first = spaces[members[0]]
        for agent in members:
            if not _alike(first, spaces[agent]):
                raise ConfigError(
                    f"groups: the agents of group {name!r} must have equal spaces; {members[0]!r} "
                    f"has {first[0]} and {first[1]}, {agent!r} has {spaces[agent][0]} and "
                    f"{spaces[agent][1]}"
                )
        out.append(
            Group(
                name, members, [slot[a] for a in members], [spaces[a][0] for a in members],
                [spaces[a][1] for a in members], len(agents),
            )
        )  # fmt: skip
    return tuple(sorted(out, key=lambda group: int(group.slots[0])))


def _named(
    agents: list[str], spaces: Mapping[str, tuple[Any, Any]], groups: Any
) -> dict[str, list[str]]:
    if isinstance(groups, Mapping):
        for name, members in groups.items():
            if isinstance(members, str) or not isinstance(members, Iterable):
                raise ConfigError(f"groups[{name!r}]: expected a list of agents, got {members!r}")
        named = {str(name): list(members) for name, members in groups.items()}
        named = {name: members for name, members in named.items() if members}
        listed = [agent for members in named.values() for agent in members]
        wrong = [a for a in listed if a not in agents] or [a for a in agents if a not in listed]
        if wrong or len(listed) != len(agents):
            what = f"{wrong[0]!r}" if wrong else "an agent that is named twice"
            raise ConfigError(
                f"groups: expected every agent of {agents} once, got {groups!r} (see {what})"
            )
        return named
    if groups == "all":
        return {"agents": agents}
    if groups == "each":
        return {agent: [agent] for agent in agents}
    if groups == "spaces":
        return _split("group", agents, spaces)
    if groups is None or callable(groups):
        by_name: Callable[[str], Any] = groups or _stem
        named = {}
        for agent in agents:
            named.setdefault(str(by_name(agent)), []).append(agent)
        if groups is not None:
            return named
        return {
            name: part
            for stem, members in named.items()
            for name, part in _split(stem, members, spaces).items()
        }
    raise ConfigError(
        "groups: expected None, 'spaces', 'all', 'each', a dict of group to agents, or a callable "
        f"from agent to group, got {groups!r}"
    )


def _stem(agent: str) -> str:
    """The name without its trailing number."""
    return re.sub(r"[_\-\s]*\d+$", "", agent) or agent


def _split(
    stem: str, agents: list[str], spaces: Mapping[str, tuple[Any, Any]]
) -> dict[str, list[str]]:
    parts: list[list[str]] = []
    for agent in agents:
        for part in parts:
            if spaces[part[0]] == spaces[agent]:
                part.append(agent)
                break
        else:
            parts.append([agent])
    if len(parts) == 1:
        return {stem: parts[0]}
    return {f"{stem}_{k}": part for k, part in enumerate(parts)}


def _alike(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    """Equal but for the bounds of boxes: what one array can hold."""
    if a == b:
        return True
    return all(
        [(x.path, x.shape, x.dtype) for x in Tree(p).leaves]
        == [(x.path, x.shape, x.dtype) for x in Tree(q).leaves]
        for p, q in zip(a, b, strict=True)
    )
