"""What native worlds are made of: the model and its options, the specification, the pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from .. import build, registry
from ..errors import ConfigError
from ..model import EventModel
from ..types import PoolConfig
from .contract import Group, Mode, VecSpec, group_agents

__all__ = ["NativePool", "Setup", "choose_pool", "native_spec", "take_apart"]

SOLO_BELOW = 48
"""Entities of all worlds below which a second thread costs more than it does.

Measured with `uav_swarm` on two cores: with 32 entities in 4 worlds one thread is faster by 4 %,
with 64 in 8 worlds two are by 10 %."""

LARGE = 2048
"""Entities of a world from which it is better shared out itself than left to one thread."""


@dataclass(frozen=True)
class Setup:
    """A model, and how it becomes environments; see `seer.env.ParallelEnv`."""

    model: EventModel
    name: str
    horizon: int | None
    strict_actions: bool
    compiled: bool
    pool: Any
    render_mode: str | None
    renderer: Callable[[], Any]
    end_info: Callable[[Any, int], dict[str, Any]] | None
    state_columns: tuple[str, ...]
    metadata: Mapping[str, Any]
    agents: tuple[str, ...]
    observation_space: Any
    action_space: Any


def take_apart(env: Any, kwargs: Mapping[str, Any], render_mode: str | None = None) -> Setup:
    """What `seer.make` would make an environment of.

    Args:
        env: as `seer.make` takes it, or the module of an environment.
        kwargs: the same.
        render_mode: None, "rgb_array" or "human".

    Raises:
        UnknownIdError: no environment has this id.
        ConfigError: a parameter is unknown or out of range, or it runs on no engine.
    """
    from ..env import ParallelEnv

    if isinstance(env, ModuleType):
        env = f"{env.__name__}:parallel_env"
    given = dict(kwargs)
    pool = given.pop("pool", "auto")
    if render_mode is not None:
        given.setdefault("render_mode", render_mode)
    made = registry.make(env, **given, pool=PoolConfig(1))
    try:
        if not isinstance(made, ParallelEnv):
            raise ConfigError(
                f"make_vec(backend='native'): {env!r} makes a {type(made).__name__}, which is no "
                "seer.env.ParallelEnv and so has no worlds; use backend='serial' or 'process'"
            )
        options = made._options
        return Setup(
            model=made.model, name=made.name, horizon=made.horizon,
            strict_actions=options["strict_actions"], compiled=options["compiled"], pool=pool,
            render_mode=made.render_mode, renderer=options["renderer"],
            end_info=options["end_info"], state_columns=tuple(made._state_columns),
            metadata=dict(made.metadata), agents=tuple(made.possible_agents),
            observation_space=made._one_observation_space, action_space=made._one_action_space,
        )  # fmt: skip
    finally:
        made.close()


# ---- who there is ---------------------------------------------------------------------------


def native_spec(setup: Setup, num_envs: int, mode: Mode, options: Any, groups: Any) -> VecSpec:
    """The specification of `num_envs` worlds.

    Args:
        setup: of the model.
        num_envs: N.
        mode: of automatic resets.
        options: of automatic resets.
        groups: None: the teams that the model declares by ``teams(p)``, (A,) whole numbers, or
            all agents where it declares none; else as `contract.group_agents` takes them.

    Raises:
        ConfigError: `groups`, or what the model declares, is not legal.
    """
    return VecSpec(
        num_envs=num_envs, agents=setup.agents, groups=_groups(setup, groups), kind="native",
        mode=mode, options=options, has_state=True, metadata=dict(setup.metadata),
        render_mode=setup.render_mode, name=setup.name,
    )  # fmt: skip


def _groups(setup: Setup, groups: Any) -> tuple[Group, ...]:
    agents = setup.agents
    if groups == "all":
        return (_group(setup, "agents", np.arange(len(agents))),)
    if groups is None or groups == "spaces":
        # Spaces are the same for all: no agent need be looked at.
        teams = _teams(setup) if groups is None else None
        stem = agents[0].rpartition("_")[0] if groups is None else "group"
        if teams is None:
            return (_group(setup, stem, np.arange(len(agents))),)
        order = np.argsort(teams, kind="stable")
        starts = np.flatnonzero(np.diff(teams[order])) + 1
        parts = np.split(order, starts)
        return tuple(
            _group(setup, f"team_{k}", part)
            for k, part in enumerate(sorted(parts, key=lambda part: int(part[0])))
        )
    both = setup.observation_space, setup.action_space
    return group_agents(agents, dict.fromkeys(agents, both), groups)


def _group(setup: Setup, name: str, slots: Any) -> Group:
    names = setup.agents
    return Group(
        name, [names[slot] for slot in slots.tolist()], slots,
        _Same(setup.observation_space, len(slots)), _Same(setup.action_space, len(slots)),
        len(names),
    )  # fmt: skip


def _teams(setup: Setup) -> Any:
    """(A,) int64, the team of each agent; None where there is one."""
    declared = getattr(setup.model, "teams", None)
    if declared is None:
        return None
    name = setup.model.spec.name
    try:
        value = declared(setup.model.p)
        teams = None if value is None else np.asarray(value)
    except Exception as error:
        raise ConfigError(f"{name}.teams could not be computed: {error!r}") from error
    if teams is None:
        return None
    if teams.shape != (len(setup.agents),) or teams.dtype.kind not in "iu":
        raise ConfigError(
            f"{name}.teams must give a whole number for each of {len(setup.agents)} agents, got "
            f"{teams.dtype} of shape {teams.shape}"
        )
    return teams if (teams != teams[0]).any() else None


class _Same(Sequence[Any]):
    """The same value `count` times, without a list of it."""

    def __init__(self, value: Any, count: int) -> None:
        self._value, self._count = value, count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._value] * len(range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._value

    def __len__(self) -> int:
        return self._count


# ---- threads --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NativePool:
    """The threads that step native worlds.

    Attributes:
        config: the engine's `seer.PoolConfig`.
        reason: why.
    """

    config: PoolConfig
    reason: str

    def explain(self) -> str:
        """What is in use and why, in a sentence or two."""
        return f"{self.config}: {self.reason}"

    def __str__(self) -> str:
        return str(self.config)


def choose_pool(pool: Any, worlds: int, entities: int) -> NativePool:
    """The pool that was asked for, or by a rule.

    Args:
        pool: None or "auto", or a `seer.PoolConfig`.
        worlds: how many.
        entities: of one world.
    """
    if isinstance(pool, PoolConfig):
        return NativePool(pool, "as asked for")
    usable = build.pool_config("auto" if pool is None else pool, worlds)
    cpus, words = usable.threads, f"{worlds} worlds of {entities} entities"
    if cpus == 1:
        return NativePool(usable, f"{words}, and this process may use one CPU")
    if worlds * entities < SOLO_BELOW:
        return NativePool(
            PoolConfig(1),
            f"{words} are less than the {SOLO_BELOW} entities from which a second thread pays",
        )
    if worlds >= 2 * cpus or (worlds > 1 and entities < LARGE):
        config = PoolConfig(min(cpus, worlds), "worlds", spin_us=usable.spin_us)
        return NativePool(config, f"{words}, shared out as a whole, on {cpus} usable CPUs")
    config = PoolConfig(cpus, "lanes", spin_us=usable.spin_us)
    return NativePool(config, f"{words} are few and large, so {cpus} usable CPUs share each")
