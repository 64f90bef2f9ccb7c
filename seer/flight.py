"""Fly an environment for some steps and say how it went: what ``seer run`` does.

Worlds step together through `seer.Engine`; one whose agents are all dead, or whose horizon is
reached, starts its next episode. Only the engine's own step is timed, not the policy.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import registry
from .album import Album
from .engine import Engine
from .errors import ConfigError
from .evaluate import random_policy
from .model import EventModel
from .types import Array, PoolConfig

#: Options of an environment that a flight chooses itself.
_CHOSEN = {"pool": "use --threads", "render_mode": "use --render FILE"}

__all__ = ["Flight", "Preparation", "Report", "model_of", "policy_of", "pool_of"]

Policy = Callable[[Array], Array]
"""(world, agent, ...) observations -> (world, agent, ...) actions."""


@dataclass(frozen=True)
class Report:
    """How a flight went. Rates count what the engine did in the time its steps took."""

    env: str
    params: dict[str, Any]
    policy: str
    pool: str
    seed: int
    worlds: int
    agents: int
    steps: int
    """Steps of the engine; each moves all worlds."""
    build_seconds: float
    """Declaring, compiling and building, first reset included."""
    step_seconds: float
    """In the engine's steps."""
    steps_per_second: float
    """World steps a second."""
    agent_steps_per_second: float
    events: int
    events_per_second: float
    latency_us: dict[str, float]
    """Of one engine step: p50, p90, p99 and max, us."""
    episodes: int
    """Finished ones."""
    mean_return: float | None
    """Sum of rewards over a finished episode, mean over its agents and over episodes."""
    mean_reward: float
    """Of a step of a living agent."""
    alive: int
    """Agents alive at the end, all worlds."""
    counters: dict[str, Any] = field(default_factory=dict)
    """Of the engine, since it was made."""
    totals: dict[str, float] = field(default_factory=dict)
    """The model's totals at the end, mean over worlds."""
    picture: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Flight:
    """An engine with a policy, and what is counted while it flies.

    Args:
        engine: a `seer.Engine`.
        policy: actions from observations; None where the model takes no actions.
        horizon: steps of an episode, None for no end.
        begin: called with a seed, then with a mask (world,) of worlds whose episode is over;
            resets them. By default the engine's own reset.
        seed: world i is reset with seed + i.
    """

    def __init__(
        self,
        engine: Any,
        policy: Policy | None,
        *,
        horizon: int | None = None,
        seed: int = 0,
        begin: Callable[[int | None, Array | None], None] | None = None,
    ) -> None:
        self.engine, self.policy, self.horizon = engine, policy, horizon
        self._spec = engine.spec
        self._begin = begin or (lambda seed, mask: engine.reset(seed=seed, mask=mask))
        self.worlds = int(engine.worlds)
        self.agents = int(self._spec.agents.count) if self._spec.agents else 0
        self.times: list[int] = []
        self.returns: list[float] = []
        self._age = np.zeros(self.worlds, np.int64)
        self._sum = np.zeros(self.worlds)
        self._gone = np.zeros((self.worlds, self.agents), np.bool_)
        self._reward, self._lived = 0.0, 0
        self._begin(seed, None)
        self._events = self._handled()

    def step(self) -> None:
        """One step of all worlds, and new episodes where they ended."""
        engine = self.engine
        actions = None
        if self.policy is not None:
            actions = np.reshape(self.policy(engine.observation), engine.action.shape)
        start = time.perf_counter_ns()
        engine.step(actions)
        self.times.append(time.perf_counter_ns() - start)
        self._age += 1
        if self.agents:
            self._count()
        over = self._over()
        if over.any():
            self.returns.extend((self._sum[over] / max(self.agents, 1)).tolist())
            self._age[over] = 0
            self._sum[over] = 0.0
            self._gone[over] = False
            self._begin(None, over)

    def events_per_second(self) -> float:
        """Events handled a second of engine time, so far."""
        return (self._handled() - self._events) / max(sum(self.times) * 1e-9, 1e-12)

    def report(self, **facts: Any) -> Report:
        """What happened since the first reset."""
        ns = np.array(self.times or [0], np.float64)
        seconds = max(float(ns.sum()) * 1e-9, 1e-12)
        steps = len(self.times)
        events = self._handled() - self._events
        counters = self.engine.counters()
        return Report(
            worlds=self.worlds,
            agents=self.agents,
            steps=steps,
            step_seconds=seconds,
            steps_per_second=steps * self.worlds / seconds,
            agent_steps_per_second=steps * self.worlds * self.agents / seconds,
            events=events,
            events_per_second=events / seconds,
            latency_us={
                name: float(np.percentile(ns, q)) * 1e-3
                for name, q in (("p50", 50), ("p90", 90), ("p99", 99), ("max", 100))
            },
            episodes=len(self.returns),
            mean_return=float(np.mean(self.returns)) if self.returns else None,
            mean_reward=self._reward / self._lived if self._lived else 0.0,
            alive=int(np.count_nonzero(self.engine.alive)) if self.agents else 0,
            counters=counters,
            totals={t.name: float(np.mean(self.engine.totals[t.name])) for t in self._spec.totals},
            **facts,
        )

    def _count(self) -> None:
        if self._spec.role("reward") is not None:
            group = self._spec.agents
            acted = self.engine.columns["acted"][:, group.first : group.first + group.count] != 0
            acted &= ~self._gone
            earned = np.where(acted, self.engine.reward, 0.0).sum(axis=1)
            self._sum += earned
            self._reward += float(earned.sum())
            self._lived += int(np.count_nonzero(acted))
        self._gone |= np.asarray(self.engine.alive) == 0
        if self._spec.role("terminated") is not None:
            self._gone |= np.asarray(self.engine.terminated) != 0

    def _over(self) -> Array:
        over = np.zeros(self.worlds, np.bool_)
        if self.horizon is not None:
            over |= self._age >= self.horizon
        if self.agents:
            over |= self._gone.all(axis=1)
        return over

    def _handled(self) -> int:
        return int(self.engine.counters()["handled"])


class Preparation:
    """Everything around one `seer run`: environment, engine, policy, picture.

    Args:
        name: an id, or "module:Class" of a model.
        options: parameters of the model and options of the environment.
        policy: "random" or the name of a policy that comes with the environment.
        worlds, seed: how many worlds, and world i is reset with seed + i.
        threads: of the pool; None for automatic.
        picture: a .gif or .png to draw world 0 into, or None.
    """

    def __init__(
        self,
        name: str,
        options: dict[str, Any],
        policy: str,
        *,
        worlds: int = 1,
        seed: int = 0,
        threads: int | None = None,
        picture: Path | None = None,
    ) -> None:
        for key, instead in _CHOSEN.items():
            if key in options:
                raise ConfigError(f"--set {key}: {instead}")
        self.name, self.options, self.policy = name, options, policy
        self.worlds, self.seed, self.pool = worlds, seed, pool_of(threads, worlds)
        self.album = Album(picture) if picture is not None else None
        self.title = f"building {name}"
        self.env: Any = None
        self.engine: Any = None
        self._flight: Flight | None = None
        self._build_seconds = 0.0

    def take_off(self) -> Flight:
        """Build everything and reset it.

        Raises:
            ConfigError: something of the request is not legal.
        """
        start = time.perf_counter()
        extra = {"render_mode": "rgb_array"} if self.album is not None else {}
        self.env = registry.make(self.name, **self.options, **extra, pool=self.pool)
        model = getattr(self.env, "model", None)
        if not hasattr(self.env, "engine") or model is None:
            raise ConfigError(f"{self.name} does not run on the engine of seer")
        if self.worlds == 1:
            self.engine = self.env.engine
        else:
            compiled = self.env.engine.compiled
            self.engine = Engine(model, self.worlds, self.pool, compiled=compiled)
        self._flight = Flight(
            self.engine,
            policy_of(self.name, self.policy, self.env, self.engine, self.seed),
            horizon=getattr(self.env, "horizon", None),
            seed=self.seed,
            begin=self._reset,
        )
        self._build_seconds = time.perf_counter() - start
        return self._flight

    def look(self, steps: int) -> None:
        """Take a picture of world 0 now and then, some 100 in `steps` steps."""
        if self.album is None or self._flight is None:
            return
        done = len(self._flight.times)
        if self.engine is not self.env.engine:
            # World 0 equals a single environment with its seed, so that one stands for it.
            self.env.engine.step(self.engine.action[:1])
        if done % max(1, steps // 100) == 0 or done == steps:
            self.album.add(self.env.render())

    def land(self) -> Report:
        """The report; writes the picture."""
        assert self._flight is not None
        picture = None
        if self.album is not None:
            picture = str(self.album.save())
        return self._flight.report(
            env=getattr(self.env, "name", self.name),
            params=dict(self.env.model.params),
            policy=self.policy,
            pool=str(self.engine.pool),
            seed=self.seed,
            build_seconds=self._build_seconds,
            picture=picture,
        )

    def close(self) -> None:
        """Close what was built."""
        for thing in (self.engine, self.env):
            if thing is not None:
                thing.close()

    def _reset(self, seed: int | None, mask: Array | None) -> None:
        if self.engine is not self.env.engine:
            self.engine.reset(seed=seed, mask=mask)
        if mask is None or mask[0]:
            self.env.reset(seed=seed)


def pool_of(threads: int | None, worlds: int) -> PoolConfig | Literal["auto"]:
    """The pool for so many threads: over worlds where there are enough of them."""
    if threads is None:
        return "auto"
    return PoolConfig(threads, axis="worlds" if worlds >= 2 * threads else "lanes")


def policy_of(name: str, policy: str, env: Any, engine: Any, seed: int) -> Policy | None:
    """The policy of this name, for all agents of all worlds at once."""
    if engine.spec.role("action") is None:
        return None
    if policy == "random":
        space = env.action_space(env.possible_agents[0])
        return random_policy(space, engine.action.shape, range(seed, seed + engine.worlds))
    known = {} if ":" in name else dict(registry.find(name).policies)
    if policy not in known:
        raise ConfigError(
            f"{name} has no policy {policy!r} (known: {', '.join(['random', *known])})"
        )
    made: Policy = registry.load(known[policy])(env.model)
    return made


def model_of(name: str, options: dict[str, Any]) -> Any:
    """A model by "module:Class", or that of an environment by its id."""
    target = registry.load(name if ":" in name else _model_target(name))
    made = registry.is_model(target) or inspect.isfunction(target)
    model = target(**options) if made and callable(target) else target
    if not isinstance(model, EventModel):
        raise ConfigError(f"{name} is no seer.EventModel, got {model!r}")
    return model


def _model_target(name: str) -> str:
    entry = registry.find(name)
    if not entry.model:
        raise ConfigError(f"{name} does not run on the engine of seer")
    return entry.model
