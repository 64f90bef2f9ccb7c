"""seer.check: a faulty environment for every rule, and good ones in which nothing is found."""

import functools
import json
import random
import re
import sys
import time
import tracemalloc

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple
from pettingzoo import AECEnv, ParallelEnv

import seer
from seer import cli
from seer.checking.words import RULES
from seer.errors import ConfigError, UnknownIdError

BOX = Box(-10, 10, (2,), np.float32)


class Good(ParallelEnv):
    """Two agents, one of which may end before the other; nothing is wrong with it."""

    lives = {"a": 6, "b": 4}  # when an agent terminates
    limit = 8  # when the rest is truncated

    def __init__(self, render_mode=None):
        self.metadata = {"render_modes": ["rgb_array"], "name": "good"}
        self.possible_agents = ["a", "b"]
        self.render_mode = render_mode
        self.spaces = {agent: (BOX, Discrete(3)) for agent in self.possible_agents}
        self.rng = np.random.default_rng()

    def observation_space(self, agent):
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]

    def look(self, agent):
        return np.array([self.x, self.t], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.x = 0, self.rng.random()
        self.agents = self.possible_agents[:]
        return {a: self.look(a) for a in self.agents}, {a: {} for a in self.agents}

    def flags(self):
        """Terminations and truncations."""
        terms = {a: self.lives.get(a) == self.t for a in self.agents}
        return terms, {a: self.t >= self.limit and not terms[a] for a in self.agents}

    def step(self, actions):
        self.t += 1
        self.x = self.rng.random() + sum(actions.values()) / 10
        terms, truncs = self.flags()
        told = list(self.agents)
        rewards = {a: float(self.x) for a in told}
        self.agents = [a for a in told if not (terms[a] or truncs[a])]
        return {a: self.look(a) for a in told}, rewards, terms, truncs, {a: {} for a in told}

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


class GoodTurns(AECEnv):
    """Two agents in turn; nothing is wrong with it."""

    def __init__(self):
        self.metadata, self.render_mode = {"render_modes": []}, None
        self.possible_agents = ["a", "b"]
        self.space = Discrete(3)
        self.rng = np.random.default_rng()

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return self.space

    def observe(self, agent):
        return np.array([self.x, self.t], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.x, self.agents = 0, self.rng.random(), self.possible_agents[:]
        for name in ("rewards", "_cumulative_rewards"):
            setattr(self, name, dict.fromkeys(self.agents, 0.0))
        for name in ("terminations", "truncations"):
            setattr(self, name, dict.fromkeys(self.agents, False))
        self.infos = {a: {} for a in self.agents}
        self.agent_selection = "a"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self.begin(agent)
        self.t += 1
        self.x = self.rng.random() + action / 10
        self.rewards = dict.fromkeys(self.agents, self.x)
        self._accumulate_rewards()
        if self.t == 6:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[self.t % len(self.agents)]

    def begin(self, agent):
        self._cumulative_rewards[agent] = 0.0


class GoodSolo(gymnasium.Env):
    """One agent; nothing is wrong with it."""

    def __init__(self):
        self.observation_space, self.action_space = BOX, Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def look(self):
        return np.array([self.np_random.random(), self.t], np.float32)

    def step(self, action):
        self.t += 1
        return self.look(), 1.0, self.t == 5, False, {}


def changed(base, **methods):
    """A subclass with other methods; each gets what the original returns."""
    members = {}
    for name, change in methods.items():
        if not callable(change):
            members[name] = change
            continue

        def method(self, *args, _change=change, _name=name, **kwargs):
            return _change(self, getattr(super(cls, self), _name)(*args, **kwargs))

        members[name] = method
    cls = type("Changed" + base.__name__, (base,), members)
    return cls


def part(index, change):
    """Another part `index` of what step returns."""

    def both(env, result):
        parts = list(result)
        parts[index] = change(env, dict(parts[index]))
        return tuple(parts)

    return both


def each(index, change):
    return part(index, lambda env, values: {a: change(v) for a, v in values.items()})


# ---- faulty environments -----------------------------------------------------------------------


class Merged(Good):
    lives = {}

    def flags(self):
        done = dict.fromkeys(self.agents, self.t >= self.limit)
        return done, dict(done)


class Reviving(Good):
    def step(self, actions):
        obs, rewards, terms, truncs, infos = super().step(actions)
        if self.t == 5:
            self.agents.append("b")
            obs["b"], rewards["b"], terms["b"], truncs["b"] = self.look("b"), 0.0, False, False
        return obs, rewards, terms, truncs, infos


class Talking(Good):
    """Goes on to report who has ended."""

    def step(self, actions):
        obs, rewards, terms, truncs, infos = super().step(actions)
        if self.t == 5:
            obs["b"], rewards["b"], terms["b"], truncs["b"] = self.look("b"), 0.0, True, False
        return obs, rewards, terms, truncs, infos


class Listing(Good):
    """Never removes anybody from its list."""

    def step(self, actions):
        self.agents = [a for a in self.possible_agents if self.t < self.lives[a]]
        result = super().step(actions)
        self.agents = self.possible_agents[:]
        return result


class Leaving(Good):
    """Whoever leaves is never flagged."""

    def flags(self):
        return dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)

    def step(self, actions):
        result = super().step(actions)
        self.agents = [a for a in self.agents if self.t < self.lives[a]]
        return result


class Joining(Good):
    def step(self, actions):
        obs, *rest = super().step(actions)
        if self.t == 3:
            obs["z"] = self.look("z")
        return obs, *rest


class Hiding(Good):
    """Has agents that wait for an observation."""

    def step(self, actions):
        obs, *rest = super().step(actions)
        if self.t == 2:
            del obs["b"]
        return obs, *rest


class Unseen(Good):
    def step(self, actions):
        obs, *rest = super().step(actions)
        if self.t == 4:
            del obs["b"]
        return obs, *rest


class GoingOn(Good):
    """Steps on after its end."""

    def step(self, actions):
        if self.agents:
            return super().step(actions)
        self.agents = ["a"]
        return super().step({"a": 0})


class Buffer(Good):
    def look(self, agent):
        self.buffer = getattr(self, "buffer", {})
        out = self.buffer.setdefault(agent, np.zeros(2, np.float32))
        out[:] = self.x, self.t
        return out


class Infos(Good):
    def step(self, actions):
        obs, rewards, terms, truncs, infos = super().step(actions)
        self.told = getattr(self, "told", {"a": {}, "b": {}})
        for agent in infos:
            self.told[agent]["t"] = self.t
        return obs, rewards, terms, truncs, {a: self.told[a] for a in infos}


class Sharing(Good):
    def reset(self, seed=None, options=None):
        obs, _ = super().reset(seed)
        info = {}
        return obs, dict.fromkeys(obs, info)


class GlobalNumpy(Good):
    def step(self, actions):
        self.noise = np.random.random()  # noqa: NPY002
        return super().step(actions)

    def look(self, agent):
        return np.array([self.x, getattr(self, "noise", 0.0)], np.float32)


class GlobalRandom(GlobalNumpy):
    def step(self, actions):
        result = super(GlobalNumpy, self).step(actions)
        self.noise = random.random()
        return result


class SeedsGlobal(Good):
    def reset(self, seed=None, options=None):
        np.random.seed(0 if seed is None else seed)  # noqa: NPY002
        return super().reset(seed)


class Layout(Good):
    """Made up at its construction, from a generator that no seed reaches."""

    def __init__(self):
        super().__init__()
        self.wall = np.random.default_rng().random()

    def look(self, agent):
        return np.array([self.wall, self.t], np.float32)


class LateChance(Good):
    """Differs in its second episode only."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def reset(self, seed=None, options=None):
        self.count += 1
        result = super().reset(seed)
        if self.count == 2:
            self.rng = np.random.default_rng()
        return result


class SeedZero(Good):
    def reset(self, seed=None, options=None):
        return super().reset(seed=seed or None) if seed else self.fresh()

    def fresh(self):
        self.rng = np.random.default_rng() if not hasattr(self, "t") else self.rng
        return super().reset()


class SameSeeds(Good):
    def reset(self, seed=None, options=None):
        return super().reset(seed=None if seed is None else 5)


class Unseeded(Good):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(3)


class Repeating(Good):
    def __init__(self):
        super().__init__()
        self.mine = np.random.default_rng().integers(2**31)

    def reset(self, seed=None, options=None):
        self.mine = self.mine if seed is None else seed
        return super().reset(seed=self.mine)


class Leftover(Good):
    """Its reset forgets something."""

    def look(self, agent):
        return np.array([self.x, self.z], np.float32)

    def reset(self, seed=None, options=None):
        self.z = getattr(self, "z", 0)
        return super().reset(seed)

    def step(self, actions):
        self.z = min(self.z + 1, 9)
        result = super().step(actions)
        if not self.agents:
            self.z = 0
        return result


class Shared(Good):
    """Has its clock in the class."""

    clock = [0]

    def reset(self, seed=None, options=None):
        Shared.clock[0] = 0
        return super().reset(seed)

    def step(self, actions):
        Shared.clock[0] += 1
        return super().step(actions)

    def look(self, agent):
        return np.array([self.x, min(Shared.clock[0], 9)], np.float32)


class Masked(Good):
    """Observations with a mask."""

    penalty, allowed, size = 1.0, True, 3

    def __init__(self):
        super().__init__()
        mask = Box(0, 1, (self.size,), np.int8)
        self.spaces = {a: (Dict({"observation": BOX, "action_mask": mask}), Discrete(3))
                       for a in self.possible_agents}  # fmt: skip

    def look(self, agent):
        mask = np.arange(self.size) != self.t % 3
        return {"observation": super().look(agent), "action_mask": mask.astype(np.int8)}

    def step(self, actions):
        fault = any(action == self.t % 3 for action in actions.values())
        obs, rewards, *rest = super().step(actions)
        return obs, {a: r - 9 * self.penalty * fault for a, r in rewards.items()}, *rest


class MaskIgnored(Masked):
    penalty = 0.0


class MaskReplaced(Masked):
    """Takes a forbidden action for the first legal one."""

    penalty = 0.0

    def step(self, actions):
        first = (self.t + 1) % 3
        return super().step({a: first if x == self.t % 3 else x for a, x in actions.items()})


class MaskEmpty(Masked):
    def look(self, agent):
        out = super().look(agent)
        if self.t == 3:
            out["action_mask"][:] = 0
        return out


class MaskShort(Masked):
    size = 2


class Altering(Good):
    """Squashes its actions in place."""

    def __init__(self):
        super().__init__()
        self.spaces = dict.fromkeys(self.possible_agents, (BOX, BOX))

    def step(self, actions):
        for action in actions.values():
            np.tanh(action, out=action)
        return super().step({a: float(x.sum()) for a, x in actions.items()})


class Seedless(Good):
    def reset(self):
        return super().reset()


class Picture(Good):
    def render(self):
        return None


class NoMode(Good):
    def __init__(self, render_mode=None):
        super().__init__()


class SecretMode(Good):
    def __init__(self):
        super().__init__("ansi")


class Twice(Good):
    def close(self):
        del self.rng


class Early(Good):
    def close(self):
        self.agents.clear()


class Fails(Good):
    def step(self, actions):
        if self.t == 3:
            raise ZeroDivisionError("three")
        return super().step(actions)


class FourValues(Good):
    def step(self, actions):
        return super().step(actions)[:4]


class ListOfThem(Good):
    def reset(self, seed=None, options=None):
        obs, infos = super().reset(seed)
        return list(obs.values()), infos


class NewSpaces(Good):
    def action_space(self, agent):
        return Discrete(3)


class OtherSpaces(Good):
    def observation_space(self, agent):
        self.size = getattr(self, "size", 10) + 1
        return Box(-10, self.size, (2,), np.float32)


class GrowingSpaces(Good):
    def reset(self, seed=None, options=None):
        self.spaces = {a: (self.spaces[a][0], Discrete(4)) for a in self.spaces}
        return super().reset(seed)


class NoSpace(Good):
    def action_space(self, agent):
        return {"a": self.spaces["a"][1]}[agent]


class Nobody(Good):
    def __init__(self):
        super().__init__()
        self.late, self.possible_agents = self.possible_agents, None

    def reset(self, seed=None, options=None):
        self.possible_agents = self.late
        try:
            return super().reset(seed)
        finally:
            self.possible_agents = None


class Doubled(Good):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["a", "a"]


class Numbered(Good):
    def __init__(self):
        super().__init__()
        self.possible_agents = [0, 1]


class Spaceless(gymnasium.Env):
    """Has nothing."""


class Duck:
    """Nothing is wrong with it, though it inherits from nothing and can't be closed."""

    def __init__(self):
        self.inner = Good()
        self.possible_agents = self.inner.possible_agents
        self.observation_space = self.inner.observation_space
        self.action_space = self.inner.action_space

    @property
    def agents(self):
        return getattr(self.inner, "agents", [])

    def reset(self, seed=None, options=None):
        return self.inner.reset(seed)

    def step(self, actions):
        return self.inner.step(actions)


class Lost(GoodTurns):
    def step(self, action):
        super().step(action)
        if self.t == 3:
            self.agent_selection = "z"


class DeadAgain(GoodTurns):
    def step(self, action):
        if action is not None:
            super().step(action)


class DeadRaises(GoodTurns):
    def step(self, action):
        self.x = action + 1
        super().step(action)


class Returning(GoodTurns):
    def step(self, action):
        super().step(action)
        if self.t == 6 and not self.agents:
            self.agents = ["a"]
            self.rewards, self._cumulative_rewards = {"a": 0.0}, {"a": 0.0}
            self.terminations, self.truncations = {"a": False}, {"a": False}
            self.infos, self.agent_selection, self.t = {"a": {}}, "a", 7
        elif self.t == 9 and self.agents:
            self.terminations = {"a": True}


class Vanishing(GoodTurns):
    def step(self, action):
        super().step(action)
        if self.t == 6:
            self.agents = []


class PaidTwice(GoodTurns):
    def begin(self, agent):
        pass


class BothEnds(GoodSolo):
    def step(self, action):
        obs, reward, term, _, info = super().step(action)
        return obs, reward, term, term, info


FAULTS = [
    ("environment", lambda: 5),
    ("environment", lambda: None),
    ("environment", functools.cache(lambda: Good())),
    ("raises", Fails),
    ("raises", lambda: 1 / 0),
    ("return-form", FourValues),
    ("return-form", ListOfThem),
    ("return-form", changed(GoodSolo, reset=lambda env, result: result[0])),
    ("possible-agents", Nobody),
    ("agent-names", Doubled),
    ("agent-names", Numbered),
    ("agent-unannounced", Joining),
    ("agents-list", Listing),
    ("agent-unflagged", Leaving),
    ("agent-revives", Reviving),
    ("after-death", Talking),
    ("step-after-end", GoingOn),
    ("selection", Lost),
    ("agent-revives", Returning),
    ("dead-turn", DeadAgain),
    ("dead-turn", DeadRaises),
    ("turn-missing", Vanishing),
    ("reward-twice", PaidTwice),
    ("flag-type", changed(Good, step=each(2, float))),
    ("flag-type", changed(GoodSolo, step=lambda env, r: (*r[:2], int(r[2]), *r[3:]))),
    ("flag-missing", changed(Good, step=part(3, lambda env, d: {a: f for a, f in d.items() if f}))),
    ("flag-all", changed(Good, step=part(2, lambda env, d: {**d, "__all__": not env.agents}))),
    ("flags-merged", Merged),
    ("flags-merged", BothEnds),
    ("space-missing", NoSpace),
    ("space-missing", Spaceless),
    ("space-object", NewSpaces),
    ("space-changes", OtherSpaces),
    ("space-changes", GrowingSpaces),
    ("observation-missing", Hiding),
    ("observation-last", Unseen),
    ("observation-form", changed(Good, look=lambda env, o: o.tolist())),
    ("observation-form", changed(Masked, look=lambda env, o: {**o, "more": 1})),
    ("observation-form", changed(Masked, look=lambda env, o: o["observation"])),
    ("observation-shape", changed(Good, look=lambda env, o: o[:1])),
    ("observation-dtype", changed(Good, look=lambda env, o: o.astype(np.float64))),
    ("observation-dtype", changed(GoodSolo, look=lambda env, o: o.astype(np.int32))),
    ("observation-bounds", changed(Good, look=lambda env, o: o - 11)),
    ("observation-nan", changed(Good, look=lambda env, o: o * np.float32(np.nan))),
    ("observation-reused", Buffer),
    ("info-reused", Infos),
    ("info-shared", Sharing),
    ("info-form", changed(GoodSolo, step=lambda env, r: (*r[:4], None))),
    ("reward-type", changed(Good, step=each(1, lambda r: np.array([r])))),
    ("reward-type", changed(Good, step=each(1, lambda r: None))),
    ("reward-finite", changed(Good, step=each(1, lambda r: float("nan")))),
    ("reward-missing", changed(Good, step=part(1, lambda env, d: {k: d[k] for k in list(d)[:1]}))),
    ("mask-form", MaskShort),
    ("mask-empty", MaskEmpty),
    ("mask-ignored", MaskIgnored),
    ("global-random", GlobalNumpy),
    ("global-random", GlobalRandom),
    ("global-random", SeedsGlobal),
    ("seed", Layout),
    ("seed", LateChance),
    ("seed-zero", SeedZero),
    ("seeds-equal", SameSeeds),
    ("unseeded-equal", Unseeded),
    ("episodes-repeat", Repeating),
    ("reset-midway", Leftover),
    ("shared-state", Shared),
    ("action-altered", Altering),
    ("reset-seed", changed(Seedless)),
    ("render", Picture),
    ("render-mode", NoMode),
    ("render-mode", SecretMode),
    ("close-twice", Twice),
    ("close-early", Early),
]


def name_of(fault):
    return getattr(fault, "__name__", str(fault))


@pytest.mark.parametrize(
    ("rule", "env"), FAULTS, ids=[f"{rule}-{name_of(env)}" for rule, env in FAULTS]
)
def test_a_faulty_environment_breaks_this_rule_alone(rule, env):
    report = seer.check(env, episodes=3, steps=30)
    assert [p.rule for p in report.problems] == [rule], str(report)
    assert not report.ok and not report
    (problem,) = report.problems
    assert problem.copes is RULES[rule].copes
    assert re.fullmatch(r".+[.?] [A-Z].*\. seer\.make_vec .*\.", problem.sentence), problem.sentence
    assert str(problem) in str(report)


def test_every_rule_has_a_faulty_environment():
    assert {rule for rule, _ in FAULTS} == RULES.keys()


def test_the_docstring_names_every_rule():
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", seer.check.__doc__)) >= RULES.keys()


class Deterministic(Good):
    def look(self, agent):
        return np.array([0, self.t], np.float32)

    def step(self, actions):
        obs, _, *rest = super().step(actions)
        return obs, dict.fromkeys(obs, 1.0), *rest


class Pausing(Good):
    """Announces who can't act yet only when it can, and has every kind of space."""

    def __init__(self):
        super().__init__()
        space = Dict({"x": BOX, "y": Tuple((Discrete(3), MultiDiscrete([2, 3])))})
        self.spaces = {a: (space, MultiDiscrete([2, 2])) for a in self.possible_agents}

    def look(self, agent):
        return {"x": super().look(agent), "y": (1, np.array([1, 2]))}

    def step(self, actions):
        return super().step({a: int(x.sum()) for a, x in actions.items()})


class Speaking(Good):
    """Has spaces that no array holds."""

    def __init__(self):
        super().__init__()
        self.spaces = {a: (Text(20), Text(3)) for a in self.possible_agents}

    def look(self, agent):
        return f"t{self.t}x{int(self.x)}"

    def step(self, actions):
        return super().step({a: len(x) for a, x in actions.items()})


@pytest.mark.parametrize(
    "env", [Good, GoodTurns, GoodSolo, Duck, Speaking, Masked, MaskReplaced, Deterministic, Pausing,
            "CartPole-v1", "Pendulum-v1", "uav_swarm"],
    ids=name_of,
)  # fmt: skip
def test_nothing_is_found_in_a_good_environment(env):
    report = seer.check(env, episodes=2, steps=60)
    assert report.ok and report, str(report)
    assert "Nothing wrong was found." in str(report)


@pytest.mark.parametrize("name", ["simple_spread_v3", "simple_tag_v3", "simple_crypto_v3"])
def test_nothing_is_found_in_the_particle_environments(name):
    module = pytest.importorskip(f"mpe2.{name}")
    for make in (module, module.env):
        report = seer.check(make, episodes=2, steps=60)
        assert report.ok, str(report)


def test_the_report_tells_who_when_and_how_often():
    report = seer.check(changed(Good, step=each(1, lambda r: None)), episodes=1)
    (problem,) = report.problems
    assert (problem.rule, problem.agent, problem.episode, problem.step) == (
        "reward-type",
        "a",
        0,
        1,
    )
    assert problem.count == 10  # a acts 6 times, b 4
    assert "None, not a number (10 times and 1 more agent). Return float(reward)." in str(problem)
    assert "(episode 0, step 1)" in str(problem)
    assert report.as_dict()["problems"][0]["rule"] == "reward-type"


def test_the_report_tells_what_make_vec_would_do():
    report = seer.check(Good, episodes=2)
    assert (report.kind, report.agents, report.layout) == ("parallel", ("a", "b"), "dict")
    assert report.groups == {"a": ("a",), "b": ("b",)}
    assert (report.episodes, report.steps) == (2, 12)
    text = str(report)
    assert "takes it as a ParallelEnv; 2 agents (a, b); groups a (1), b (1); layout 'dict'" in text
    assert "eight copies would be run by" in text and "a step takes" in text
    assert 0 < report.step_seconds[0] <= report.step_seconds[1] < report.seconds
    assert seer.check(GoodTurns, episodes=1).kind == "aec"
    solo = seer.check(GoodSolo, episodes=1)
    assert (solo.kind, solo.layout) == ("gymnasium", "flat")


def test_large_observations_are_compared_and_not_kept():
    class Pixels(Good):
        def __init__(self, own=True):
            super().__init__()
            self.own = own
            box = Box(0, 255, (200, 200, 3), np.uint8)
            self.spaces = {a: (box, Discrete(3)) for a in self.possible_agents}

        def look(self, agent):
            rng = self.rng if self.own else np.random.default_rng()
            return rng.integers(0, 255, (200, 200, 3), np.uint8)

    tracemalloc.start()
    report = seer.check(Pixels, episodes=10, steps=30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.ok, str(report)
    assert peak < 10e6  # and 20 observations of 0.12 MB in each of 10 episodes
    report = seer.check(functools.partial(Pixels, own=False))
    assert [p.rule for p in report.problems] == ["seed"]
    words = "obs['a'], an array of shape (200, 200, 3), dtype uint8, has other values"
    assert words in str(report)


def test_several_faults_are_all_told():
    class Bad(GlobalNumpy, Buffer):
        def step(self, actions):
            obs, rewards, terms, truncs, infos = super().step(actions)
            return obs, rewards, {**terms, "__all__": False}, truncs, infos

    class Worse(Bad):
        def look(self, agent):
            out = Buffer.look(self, agent)
            out[1] = getattr(self, "noise", 0)
            return out

    assert {p.rule for p in seer.check(Worse).problems} == {
        "flag-all", "observation-reused", "global-random",
    }  # fmt: skip


def test_the_global_generators_stay_as_they_were():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    seer.check(GlobalNumpy, episodes=1)
    got = random.random(), np.random.random()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    assert got == (random.random(), np.random.random())  # noqa: NPY002


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """The name of a module with a faulty environment and a good one."""
    (tmp_path / "faulty_example.py").write_text(
        "from gymnasium.spaces import Box, Discrete\n"
        "import gymnasium, numpy as np\n"
        "class Solo(gymnasium.Env):\n"
        "    observation_space, action_space = Box(0, 9, (1,), np.float32), Discrete(2)\n"
        "    def reset(self, seed=None, options=None):\n"
        "        self.t = 0\n"
        "        return np.zeros(1, np.float32), {}\n"
        "    def step(self, action):\n"
        "        self.t += 1\n"
        "        return np.full(1, self.t, np.float32), 1.0, self.t == 4, False, {}\n"
        "class Late(Solo):\n"
        "    def step(self, action):\n"
        "        obs, *rest = super().step(action)\n"
        "        return obs.astype(float), *rest\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "faulty_example"


@pytest.mark.parametrize(("name", "status"), [("Solo", 0), ("Late", 1)])
def test_the_command(name, status, faulty, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", f"{faulty}:{name}", "--episodes", "2"])
    assert (caught.value.code or 0) == status
    out = capsys.readouterr().out
    assert f"seer.check: {faulty}:{name}" in out or f"seer.check: {name}" in out
    if name == "Late":
        assert "[observation-dtype] (episode 0, step 1) The observation has dtype float64" in out
        assert "seer.make_vec copes within a kind" in out and "1 problem." in out
    with pytest.raises(SystemExit):
        cli.main(["check", f"{faulty}:{name}", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (status == 0)
    assert [p["rule"] for p in told["problems"]] == ["observation-dtype"] * status


def test_the_command_refuses_what_is_not_there(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", "no_such_module:Thing"])
    assert caught.value.code == 2
    assert "no_such_module" in capsys.readouterr().err


def test_a_slow_environment_is_compared_as_far_as_time_allows(monkeypatch):
    monkeypatch.setattr(sys.modules[seer.check.__module__], "_AGAIN", 0.05)

    class Slow(Good):
        def step(self, actions):
            time.sleep(0.02)
            return super().step(actions)

    report = seer.check(Slow, episodes=2)
    assert report.ok
    assert re.search(r"only the first [23] of 14 resets and steps", " ".join(report.notes))
    assert report.step_seconds[0] > 0.02


def test_a_long_episode_is_noted():
    report = seer.check(functools.partial(Good), episodes=1, steps=3)
    assert report.ok
    assert any("no episode ended within 3 steps" in note for note in report.notes)


def test_an_environment_that_exits_is_a_problem_not_an_exit():
    def leaves():
        raise SystemExit(3)

    report = seer.check(leaves)
    assert [p.rule for p in report.problems] == ["raises"]


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [({"episodes": 0}, "episodes=0"), ({"steps": 2.5}, "steps=2.5"), ({"seed": -1}, "seed=-1")],
)
def test_bad_arguments_are_refused(kwargs, words):
    with pytest.raises(ConfigError, match=words):
        seer.check(Good, **kwargs)


def test_what_is_no_source_is_refused():
    with pytest.raises(ConfigError, match="lambda"):
        seer.check(Good())
    with pytest.raises(UnknownIdError, match="CartPole-v1"):
        seer.check("CartPoll-v1")
