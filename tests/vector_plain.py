"""Single environments stepped by hand: what a vector of them must show.

Nothing here uses the vectorizer. A loop steps one environment exactly as its own interface asks
for and records what it said, by agent; automatic resets are made where a mode asks for them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

LONE = "agent_0"  # what the only agent of a Gymnasium environment is called


@dataclass
class Record:
    """What one environment said in one step, by agent.

    live: who must act next. acted: who acted. earned: {agent: (return, length)} of those whose
    life ended. final: in same-step mode (observations, infos) of the episode that ended.
    """

    obs: dict[str, Any]
    infos: dict[str, Any]
    live: list[str]
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: dict[str, bool] = field(default_factory=dict)
    truncated: dict[str, bool] = field(default_factory=dict)
    acted: list[str] = field(default_factory=list)
    over: bool = False
    was_reset: bool = False
    earned: dict[str, tuple[float, int]] = field(default_factory=dict)
    final: tuple[dict[str, Any], dict[str, Any]] | None = None

    @property
    def flagged(self) -> list[str]:
        ends = {**self.terminated, **self.truncated}
        return [a for a in ends if self.terminated.get(a) or self.truncated.get(a)]


class Loop:
    """One environment and its mode."""

    def __init__(self, env: Any, mode: str = "next_step") -> None:
        self.env, self.mode = env, mode
        self.over = True
        self.live: list[str] = []
        self.returns: dict[str, float] = {}
        self.lengths: dict[str, int] = {}

    def reset(self, **given: Any) -> Record:
        self.returns, self.lengths, self.over = {}, {}, False
        record = self.begin(**given)
        self.live = record.live
        return record

    def step(self, actions: dict[str, Any]) -> Record:
        """`actions` of who is live; a mode may reset the environment before or after."""
        if self.over:
            assert self.mode == "next_step", "an environment that has ended must be reset"
            record = self.reset()
            record.was_reset = True
            return record
        before = list(self.live)
        record = self.move({agent: copy.deepcopy(actions[agent]) for agent in before})
        record.acted = before
        for agent in before:
            self.lengths[agent] = self.lengths.get(agent, 0) + 1
        for agent, reward in record.rewards.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + reward
        record.earned = {
            agent: (self.returns.pop(agent, 0.0), self.lengths.pop(agent, 0))
            for agent in record.flagged
        }
        self.over, self.live = record.over, record.live
        if record.over and self.mode == "same_step":
            first = self.reset()
            record.final = record.obs, record.infos
            record.obs, record.infos, record.live = first.obs, first.infos, first.live
        return record

    def begin(self, **given: Any) -> Record:
        raise NotImplementedError

    def move(self, actions: dict[str, Any]) -> Record:
        raise NotImplementedError

    def close(self) -> None:
        self.env.close()


class ParallelLoop(Loop):
    """A ParallelEnv that keeps its list of agents and reports nobody after the end."""

    def begin(self, **given: Any) -> Record:
        obs, infos = self.env.reset(**given)
        return Record(copy.deepcopy(obs), copy.deepcopy(infos), list(self.env.agents))

    def move(self, actions: dict[str, Any]) -> Record:
        obs, rewards, terminated, truncated, infos = copy.deepcopy(self.env.step(actions))
        rewards = {agent: float(np.asarray(r).reshape(())) for agent, r in rewards.items()}
        agents = list(self.env.agents)
        if not agents:  # who isn't flagged was cut off
            cut = [a for a in actions if not (terminated.get(a) or truncated.get(a))]
            truncated.update(dict.fromkeys(cut, True))
        return Record(
            obs, infos, [a for a in agents if a in obs], rewards, terminated, truncated,
            over=not agents,
        )  # fmt: skip


class LoneLoop(Loop):
    """A Gymnasium environment."""

    def begin(self, **given: Any) -> Record:
        obs, info = copy.deepcopy(self.env.reset(**given))
        return Record({LONE: obs}, {LONE: info}, [LONE])

    def move(self, actions: dict[str, Any]) -> Record:
        obs, reward, term, trunc, info = copy.deepcopy(self.env.step(actions[LONE]))
        over = bool(term or trunc)
        return Record(
            {LONE: obs}, {LONE: info}, [] if over else [LONE], {LONE: float(reward)},
            {LONE: bool(term)}, {LONE: bool(trunc)}, over=over,
        )  # fmt: skip


class TurnLoop(Loop):
    """An AECEnv: one move, and the turns of agents that have ended."""

    def begin(self, **given: Any) -> Record:
        self.env.reset(**given)
        record = Record({}, {}, [])
        self.advance(record)
        return Record(record.obs, record.infos, record.live)

    def move(self, actions: dict[str, Any]) -> Record:
        (action,) = actions.values()
        self.env.step(action)
        record = Record({}, {}, [])
        self.advance(record)
        return record

    def advance(self, record: Record) -> None:
        while self.env.agents:
            agent = self.env.agent_selection
            obs, reward, term, trunc, info = copy.deepcopy(self.env.last())
            record.obs[agent], record.infos[agent] = obs, info
            record.rewards[agent] = float(reward)
            record.terminated[agent], record.truncated[agent] = bool(term), bool(trunc)
            if not (term or trunc):
                record.live = [agent]
                return
            self.env.step(None)
        record.over = True


LOOPS = {"parallel": ParallelLoop, "gymnasium": LoneLoop, "aec": TurnLoop}


# ---- values of a space, one and many --------------------------------------------------------


def filler(space: Any, key: str = "") -> Any:
    """What stands for an absent agent: zero clipped into the space, all True for a mask."""
    if isinstance(space, spaces.Dict):
        return {k: filler(sub, k) for k, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(filler(sub) for sub in space.spaces)
    if not batchable(space):
        return None
    zero = np.zeros(space.shape, space.dtype)
    if key == "action_mask":
        return zero + 1
    if isinstance(space, spaces.Box):
        return np.clip(zero, space.low, space.high)
    return np.maximum(zero, getattr(space, "start", 0))


def batchable(space: Any) -> bool:
    """Whether Gymnasium puts many values of this space into one array."""
    plain = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    return isinstance(space, plain)


def pick(space: Any, batch: Any, *at: int) -> Any:
    """One value out of a batch of them."""
    if isinstance(space, spaces.Dict):
        return {k: pick(sub, batch[k], *at) for k, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(pick(sub, batch[k], *at) for k, sub in enumerate(space.spaces))
    for index in at:
        batch = batch[index]
    return batch


def put(space: Any, values: list[Any], *lead: int) -> Any:
    """Many values as one batch of shape (*lead, …)."""
    if isinstance(space, spaces.Dict):
        return {k: put(sub, [v[k] for v in values], *lead) for k, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(put(sub, [v[k] for v in values], *lead) for k, sub in enumerate(space.spaces))
    if batchable(space):
        return np.array(values, space.dtype).reshape(*lead, *space.shape)
    if len(lead) == 1:
        return tuple(values)
    width = lead[1]
    return tuple(tuple(values[k * width : (k + 1) * width]) for k in range(lead[0]))


def shaped(space: Any, batch: Any, *lead: int) -> None:
    """A batch has the declared dtype and shape, leaf by leaf."""
    if isinstance(space, spaces.Dict):
        assert type(batch) is dict
        assert list(batch) == list(space.spaces)
        for k, sub in space.spaces.items():
            shaped(sub, batch[k], *lead)
    elif isinstance(space, spaces.Tuple):
        assert type(batch) is tuple
        for part, sub in zip(batch, space.spaces, strict=True):
            shaped(sub, part, *lead)
    elif batchable(space):
        assert type(batch) is np.ndarray
        assert batch.dtype == space.dtype, (batch.dtype, space.dtype)
        assert batch.shape == (*lead, *space.shape), (batch.shape, lead, space.shape)
    else:
        assert type(batch) is tuple
        assert len(batch) == lead[0]


def arrays_of(value: Any) -> list[np.ndarray]:
    """Every array in whatever is nested in dicts, lists and tuples."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in arrays_of(part)]
    return []


def same(a: Any, b: Any, where: str = "") -> None:
    """Equal in every value; arrays and numbers by value, NaN equal to itself."""
    if isinstance(b, dict):
        assert isinstance(a, dict), (where, a, b)
        assert set(a) == set(b), (where, sorted(a, key=str), sorted(b, key=str))
        for key in b:
            same(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(b, (list, tuple)) or (isinstance(b, np.ndarray) and b.dtype.hasobject):
        assert len(a) == len(b), (where, a, b)
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{k}]")
    elif isinstance(b, (bool, int, float, np.ndarray, np.generic)):
        np.testing.assert_array_equal(a, b, where)
    else:
        assert a is b or a == b, (where, a, b)


def unbatched(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """The info of one row, out of Gymnasium's form."""
    out = {}
    for key, value in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        bare = {"r", "l", "t"} == set(infos)  # of an episode: the mask is outside
        mask = np.ones(row + 1, np.bool_) if bare else infos[f"_{key}"]
        assert mask.dtype == np.bool_, key
        if mask[row]:
            out[key] = unbatched(value, row) if isinstance(value, dict) else value[row]
    return out
