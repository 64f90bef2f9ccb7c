"""Scores of a policy: every episode counts once, whatever its length.

The protocol is that of ``envs/PROTOCOL.md``: a fixed list of episodes, the return of each as a
mean over its agents, normalized between a random and a hand-written policy on the same
episodes, and the interquartile mean with a bootstrap interval.

Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice,
NeurIPS 2021 (interquartile mean, percentile bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .errors import ActionError, ConfigError, StateError
from .types import Array, FloatArray, whole

__all__ = ["Evaluation", "evaluate", "interquartile_mean", "interval", "random_policy", "rollout"]

Policy = Callable[[Any], Any]

FIRST_SEED = 10**6
"""Seeds below it are for training."""
BATCH = 50  # worlds that fly side by side; results do not depend on it
RESAMPLES = 2000


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found. Scores are normalized: 0 is random, 1 the heuristic.

    Intervals are 95 % bootstrap intervals of the interquartile mean over the episodes of this
    one policy; for an interval over training runs give each run's score to `interval`.
    """

    env: str
    policy: str
    episodes: int
    first_seed: int
    mean_return: float
    """Sum of rewards of an episode, mean over its agents and over the episodes."""
    iqm_return: float
    return_interval: tuple[float, float]
    score: float | None
    """Of the mean returns; None where there is nothing to compare with."""
    iqm_score: float | None
    score_interval: tuple[float, float] | None
    random_return: float | None
    heuristic_return: float | None
    mean_length: float
    """Steps of an episode, until the last agent has ended."""
    survival: float
    """Share of agents that were not terminated."""
    returns: list[float] = field(default_factory=list)
    """One a episode, in the order of the seeds."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Rollout:
    """Some episodes: (episode,) returns, lengths in steps, and shares of agents not terminated."""

    returns: FloatArray
    lengths: FloatArray
    survival: FloatArray


def evaluate(
    env: Any,
    policy: Any,
    episodes: int = 100,
    seed: int = FIRST_SEED,
    *,
    heuristic: Policy | None = None,
    baselines: tuple[float, float] | None = None,
) -> Evaluation:
    """Score a policy on the episodes with seeds ``seed`` to ``seed + episodes - 1``.

    Args:
        env: an environment of `seer.make`, which is left as it is (its model is flown in worlds
            of their own), or any PettingZoo ``ParallelEnv``, which is flown itself.
        policy: ``"random"``; ``"heuristic"`` or another name that the environment's id knows; or
            a callable. For an environment of seer it is called with observations
            (world, agent, ...) and returns actions (world, agent, ...); for another one with the
            dict of observations and returns the dict of actions.
        episodes: how many; each is flown once and to its end, so that short ones don't count
            more often.
        seed: of the first.
        heuristic: the policy that scores 1, where the environment's id does not know one.
        baselines: the mean returns that score 0 and 1, instead of measuring them.

    Raises:
        ConfigError: an argument is not legal, or the policy's name is not known.
    """
    episodes, seed = _whole("episodes", episodes, 1), _whole("seed", seed, 0)
    name = getattr(env, "name", None) or str(env)
    label = policy if isinstance(policy, str) else getattr(policy, "__name__", "policy")
    fly = _native_rollout if hasattr(env, "engine") and hasattr(env, "model") else rollout
    known = _named_policies(env)
    if heuristic is not None:
        known["heuristic"] = lambda: heuristic
    flown = _policy(env, policy, known)
    found = fly(env, flown, episodes, seed)

    low = high = None
    if baselines is not None:
        low, high = (float(b) for b in baselines)
    elif "heuristic" in known:
        for kind in ("random", "heuristic"):
            same = kind == policy
            run = found if same else fly(env, _policy(env, kind, known), episodes, seed)
            value = float(run.returns.mean())
            low, high = (value, high) if kind == "random" else (low, value)
    scores = None
    if low is not None and high is not None and high != low:
        scores = (found.returns - low) / (high - low)
    return Evaluation(
        env=name,
        policy=label,
        episodes=episodes,
        first_seed=seed,
        mean_return=float(found.returns.mean()),
        iqm_return=interquartile_mean(found.returns),
        return_interval=interval(found.returns),
        score=None if scores is None else float(scores.mean()),
        iqm_score=None if scores is None else interquartile_mean(scores),
        score_interval=None if scores is None else interval(scores),
        random_return=low,
        heuristic_return=high,
        mean_length=float(found.lengths.mean()),
        survival=float(found.survival.mean()),
        returns=found.returns.tolist(),
    )


# ---- statistics ------------------------------------------------------------------------------


def interquartile_mean(values: Any) -> float:
    """The mean of the middle half: a quarter of the values is left out at either end.

    Args:
        values: (run,) numbers, at least one.

    Source: Agarwal et al. 2021, section 4.3.
    """
    rows = np.sort(np.asarray(values, np.float64).reshape(1, -1), axis=1)
    return float(_middle(rows)[0])


def interval(values: Any, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the interquartile mean.

    Args:
        values: (run,) one number a run, at least one.
        level: how often the interval should hold the truth.
        seed: of the resampling.

    Source: Efron, Annals of Statistics 7 (1979); Agarwal et al. 2021, section 4.2.
    """
    values = np.asarray(values, np.float64).reshape(-1)
    if values.size == 0 or not np.isfinite(values).all():
        raise ConfigError("interval: expected at least one finite value")
    rng = np.random.default_rng(seed)
    draws = np.sort(values[rng.integers(0, values.size, (RESAMPLES, values.size))], axis=1)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(_middle(draws), [tail, 100.0 - tail])
    return float(low), float(high)


def _middle(rows: Array) -> FloatArray:
    cut = rows.shape[1] // 4
    mean: FloatArray = rows[:, cut : rows.shape[1] - cut].mean(axis=1)
    return mean


# ---- flying ----------------------------------------------------------------------------------


def random_policy(space: Any, shape: tuple[int, ...], seeds: Iterable[int]) -> Policy:
    """Uniform actions; each world has a generator of its own, so batches don't matter.

    Args:
        space: one agent's Box, Discrete or MultiDiscrete.
        shape: (world, agent, ...) of the actions.
        seeds: (world,) of the episodes.
    """
    rngs = [np.random.default_rng([int(s), 1]) for s in seeds]
    row = shape[1:]
    if hasattr(space, "low") and hasattr(space, "high"):
        low, high = np.broadcast_to(space.low, row), np.broadcast_to(space.high, row)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ConfigError(f"a random policy needs bounded actions, got {space}")
        return lambda _: np.stack([r.uniform(low, high) for r in rngs]).astype(space.dtype)
    if hasattr(space, "nvec"):
        return lambda _: np.stack([space.start + r.integers(0, space.nvec, row) for r in rngs])
    if hasattr(space, "n") and hasattr(space, "start"):
        return lambda _: np.stack([space.start + r.integers(0, int(space.n), row) for r in rngs])
    raise ConfigError(f"there is no random policy for {space}")


def _native_rollout(env: Any, policy: Any, episodes: int, seed: int) -> Rollout:
    """The episodes of an environment of seer, in worlds side by side."""
    from .engine import Engine

    if env.horizon is None:
        raise ConfigError(f"evaluate: {env.name} has no horizon, so an episode may never end")
    model, engine_pool = env.model, env.engine.pool
    parts = []
    for first in range(seed, seed + episodes, BATCH):
        worlds = min(BATCH, seed + episodes - first)
        pool: Any = engine_pool if engine_pool.threads == 1 else "auto"
        with Engine(model, worlds=worlds, pool=pool, compiled=env.engine.compiled) as engine:
            engine.reset(seed=first)
            act = policy
            if policy == "random":
                space = env.action_space(env.possible_agents[0])
                act = random_policy(space, engine.action.shape, range(first, first + worlds))
            parts.append(_fly(engine, act, env.horizon))
    return Rollout(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _fly(engine: Any, act: Policy, horizon: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Every world once, to its end; a world that has ended is not stepped any more."""
    living = np.asarray(engine.alive) != 0
    rewarded, ends = (engine.spec.role(name) is not None for name in ("reward", "terminated"))
    total = np.zeros(engine.worlds)
    length = np.zeros(engine.worlds)
    for _ in range(horizon):
        running = living.any(axis=1)
        if not running.any():
            break
        actions = np.asarray(act(engine.observation.copy()))
        if actions.size != engine.action.size:
            raise ActionError(
                f"evaluate: expected actions of shape {engine.action.shape} from the policy, got "
                f"{actions.shape}"
            )
        engine.step(actions.reshape(engine.action.shape), mask=running)
        if rewarded:
            total += np.where(living & running[:, None], engine.reward, 0.0).sum(axis=1)
        length += running
        living &= np.asarray(engine.alive) != 0
        if ends:
            living &= ~np.asarray(engine.terminated, bool)
    agents = engine.action.shape[1]
    return total / agents, length, living.mean(axis=1)


def rollout(env: Any, policy: Any, episodes: int, seed: int) -> Rollout:
    """The episodes of any PettingZoo ``ParallelEnv``, one after another.

    Args:
        env: the environment.
        policy: dict of observations -> dict of actions, or ``"random"``.
        episodes: how many.
        seed: episode k is reset with seed + k.
    """
    rows = []
    for k in range(seed, seed + episodes):
        observations, _ = env.reset(seed=k)
        agents = list(env.agents)
        if not agents:
            raise StateError(f"evaluate: {env} has no agents after reset(seed={k})")
        if policy == "random":
            for i, agent in enumerate(agents):
                env.action_space(agent).seed(k + i)
        total, length, dead = 0.0, 0, 0
        while env.agents:
            if policy == "random":
                actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            else:
                actions = policy({agent: observations[agent] for agent in env.agents})
            observations, rewards, terminations, _, _ = env.step(actions)
            total += float(sum(rewards.values()))
            dead += sum(map(bool, terminations.values()))
            length += 1
        rows.append((total / len(agents), float(length), 1.0 - dead / len(agents)))
    returns, lengths, survival = (np.array(column) for column in zip(*rows, strict=True))
    return Rollout(returns, lengths, survival)


# ---- policies by name --------------------------------------------------------------------------


def _named_policies(env: Any) -> dict[str, Callable[[], Policy]]:
    """What the environment's id knows, by name; each is made when it is called."""
    from . import registry

    name = getattr(env, "name", None)
    if not isinstance(name, str) or name not in registry.list() or not hasattr(env, "model"):
        return {}

    def maker(target: str) -> Callable[[], Policy]:
        return lambda: registry.load(target)(env.model)

    return {key: maker(target) for key, target in registry.find(name).policies}


def _policy(env: Any, policy: Any, known: dict[str, Callable[[], Policy]]) -> Any:
    if isinstance(policy, str):
        if policy == "random":
            return "random"
        if policy not in known:
            names = ", ".join(["random", *known])
            raise ConfigError(f"evaluate: {env} has no policy {policy!r} (known: {names})")
        return known[policy]()
    if not callable(policy):
        raise ConfigError(
            f"evaluate: the policy must be a name or callable, got {type(policy).__name__}"
        )
    return policy


def _whole(what: str, value: Any, low: int) -> int:
    number = whole(value)
    if number is None or number < low:
        raise ConfigError(f"evaluate: {what} must be a whole number from {low}, got {value!r}")
    return number
