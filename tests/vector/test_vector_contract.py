"""Every promise of a vector, for environments of all kinds, on all backends and in all layouts."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple
from pettingzoo import ParallelEnv
from vector_contract import PROMISES, Case, check

import seer

from .test_aec import Turns

BACKENDS = {
    "serial": {"backend": "serial"},
    "shared": {"backend": "process"},
    "workers": {"workers": 2},
}


class Drift(ParallelEnv):
    """Random walkers of nested spaces, with masks and infos; some die, some are born later.

    The second sleeps through one step: it is paid, but observes nothing and then doesn't act. It
    hands out the same arrays and dicts in every step, and writes into the actions it is given.
    """

    metadata = {"name": "drift", "render_modes": []}
    render_mode = None

    def __init__(self, plain=False, equal=False):
        self.possible_agents = ["walker_0", "walker_1", "runner_0", "runner_1"]
        self.plain = plain
        wide = {a: 3 if a.startswith("walker") or equal else 4 for a in self.possible_agents}
        self.actions = {a: Discrete(wide[a], start=2) for a in self.possible_agents}
        if plain:
            self.spaces = {a: Box(1.0, 1e6, (wide[a],), np.float32) for a in self.possible_agents}
            self.actions = {a: Box(-1, 1, (wide[a] - 1,), np.float32) for a in self.possible_agents}
        else:
            self.spaces = {
                a: Dict(
                    seen=Tuple((Box(-1e6, 1e6, (2, 2), np.float64), Discrete(7, start=1))),
                    action_mask=Box(0, 1, (wide[a],), np.int8),
                )
                for a in self.possible_agents
            }
        self.rng = np.random.default_rng()
        self.infos = {a: {"list": [1]} for a in self.possible_agents}
        self.out = np.zeros((2, 2))
        self.masks = {a: np.zeros(wide[a], np.int8) for a in self.possible_agents}
        self.agents = []

    def observation_space(self, agent):
        return self.spaces[agent]

    def action_space(self, agent):
        return self.actions[agent]

    def look(self, agent):
        self.out[0], self.out[1] = self.where[agent], self.t
        if self.plain:
            return 1.5 + np.abs(np.resize(self.out, self.spaces[agent].shape)).astype(np.float32)
        self.masks[agent][:] = 0
        self.masks[agent][(self.t + np.arange(2)) % len(self.masks[agent])] = 1
        return {"seen": (self.out.copy(), 1 + self.t % 7), "action_mask": self.masks[agent]}

    def tell(self, agents):
        infos = {}
        for agent in agents:
            info = self.infos[agent]
            info.clear()
            if self.rng.random() < 0.7:
                info.update(half=0.5 * self.t, place={"x": float(self.where[agent][0])})
            if self.t % 3 == 1:
                info.update(list=[self.t], whole=self.t, name=agent, far=bool(self.t % 2))
            infos[agent] = info
        return infos

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.asleep = 0, []
        self.agents = self.possible_agents[:3]
        self.where = {a: self.rng.normal(size=2) for a in self.possible_agents}
        self.end = {a: int(self.rng.integers(2, 9)) for a in self.possible_agents}
        return {a: self.look(a) for a in self.agents}, self.tell(self.agents)

    def step(self, actions):
        assert set(actions) == set(self.agents) - set(self.asleep)
        self.t += 1
        rewards = dict.fromkeys(self.asleep, 0.25)
        for agent, action in actions.items():
            if self.plain:
                assert action.shape == self.actions[agent].shape
                self.where[agent] += action.sum()
                action[:] = 9.0
            else:
                assert self.masks[agent][int(action) - 2]
                self.where[agent] += int(action)
            self.where[agent] = self.where[agent] + self.rng.normal(size=2)
            rewards[agent] = np.array([self.where[agent].sum()])
        born = ["runner_1"] if self.t == 2 else []
        here = self.agents + born
        rewards.update(dict.fromkeys(born, 0.0))
        self.asleep = ["walker_1"] if self.t == 3 and self.end["walker_1"] > 3 else []
        told = [a for a in here if a not in self.asleep]
        terms = {a: self.t == self.end[a] and a not in born for a in told}
        truncs = {a: self.t >= 7 and not terms[a] for a in told}
        obs, infos = {a: self.look(a) for a in told}, self.tell(told)
        self.agents = [a for a in here if not (terms.get(a) or truncs.get(a))]
        return obs, rewards, terms, truncs, infos


class Alone(gymnasium.Env):
    """One agent with spaces of every kind, of which some can't be batched."""

    metadata = {"render_modes": []}

    def __init__(self, words=False):
        self.observation_space = Dict(
            a=Box(-9, 9, (2,), np.float32), b=Tuple((Discrete(4), MultiDiscrete([3, 2]))),
        )  # fmt: skip
        self.action_space = Dict(go=Box(-1, 1, (1,), np.float32), do=Discrete(3))
        if words:
            self.observation_space = Dict(a=Box(-9, 9, (2,), np.float32), say=Text(8))
            self.action_space = Text(5)
        self.words = words

    def look(self):
        a = np.clip(self.np_random.normal(size=2), -9, 9).astype(np.float32)
        if self.words:
            return {"a": a, "say": "ab" * (1 + self.t % 3)}
        return {"a": a, "b": (np.int64(self.t % 4), np.array([self.t % 3, self.t % 2]))}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.end = int(self.np_random.integers(2, 9))
        return self.look(), {"end": self.end}

    def step(self, action):
        self.t += 1
        reward = len(action) if self.words else float(action["go"][0]) + int(action["do"])
        if not self.words:
            action["go"][0] = 5.0
        info = {"t": self.t} if self.t % 2 else {"why": ["no", self.t], "deep": {"x": 0.5}}
        return self.look(), reward, self.t >= self.end, self.t >= 6, info


KINDS = {
    "drift": (functools.partial(Drift), "parallel", ("dict", "stacked", "list")),
    "equal": (functools.partial(Drift, equal=True), "parallel", ("dict", "flat")),
    "plain": (functools.partial(Drift, plain=True), "parallel", ("stacked", "list")),
    "rows": (functools.partial(Drift, plain=True, equal=True), "parallel", ("flat", "stacked")),
    "alone": (functools.partial(Alone), "gymnasium", ("flat", "dict", "stacked", "list")),
    "words": (functools.partial(Alone, words=True), "gymnasium", ("flat", "dict", "list")),
    "turns": (
        functools.partial(Turns, names=("a", "b", "c"), moves=7, deaths={2: "b"}, mask="obs"),
        "aec", ("flat", "dict", "list"),
    ),
    "pole": (functools.partial(gymnasium.make, "CartPole-v1"), "gymnasium", ("flat",)),
}  # fmt: skip


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize(
    ("name", "layout"), [(name, layout) for name, kind in KINDS.items() for layout in kind[2]]
)
def test_serial(name, layout, promise):
    factory, kind, _ = KINDS[name]
    make = functools.partial(seer.make_vec, [factory] * 3, **BACKENDS["serial"])
    promise(Case(make, lambda i: factory(), kind, layout, 24))


# Workers take time to start: every layout of every kind on one of the two ways.
DEALT = [
    (name, layout, ("workers", "shared")[k % 2])
    for k, (name, layout) in enumerate(
        (n, x) for n, kind in KINDS.items() for x in kind[2] if n not in ("plain", "equal", "pole")
    )
]
IN_PROCESSES = [
    promise for promise in PROMISES
    if promise.__name__ not in ("it_says_what_it_is", "an_ended_environment_must_be_reset",
                                "spaces_are_batched_and_stay_the_same_objects")
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layout", "backend"), DEALT)
def test_processes(name, layout, backend):
    factory, kind, _ = KINDS[name]
    make = functools.partial(seer.make_vec, [factory] * 3, **BACKENDS[backend])
    check(make, lambda i: factory(), kind, (layout,), steps=12, promises=IN_PROCESSES)


@pytest.mark.filterwarnings("ignore:.*unknown reset options.*:UserWarning")
@pytest.mark.parametrize("pool", [seer.PoolConfig(threads=1), seer.PoolConfig(threads=2)], ids=str)
@pytest.mark.parametrize("layout", ["dict", "stacked", "list", "flat"])
def test_native_worlds(layout, pool):
    given = {"drones": 3, "horizon": 7}
    make = functools.partial(seer.make_vec, "uav_swarm_v0", num_envs=3, pool=pool, **given)
    check(make, lambda i: seer.make("uav_swarm_v0", **given), "parallel", (layout,))
    with make(layout=layout) as vec:
        vec.reset(seed=[0, 9, 4])
        assert vec.np_random_seed == (0, 9, 4)
