"""Worlds that do what users' worlds do, for the tests of cases."""

import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
from pettingzoo import AECEnv

from .worlds import Ledger


class Pausing(Ledger):
    """Agent b is not reported in steps 2 and 3, and then again, without a flag."""

    def step(self, actions):
        assert ("b" in actions) == (self.t not in (2, 3)), (self.t, actions)
        self.agents = self.possible_agents[:]
        observations, rewards, terms, truncs, infos = super().step(
            {agent: actions.get(agent, 0) for agent in self.agents}
        )
        if self.t in (2, 3):
            for result in (observations, rewards, terms, truncs, infos):
                del result["b"]
            self.agents.remove("b")
        return observations, rewards, terms, truncs, infos


class Returning(Ledger):
    """Agent b dies in step 2 and lives again, under its name, from step 3 on."""

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        if self.t == 3:
            self.agents.append("b")
            observations["b"], rewards["b"], infos["b"] = self.look("b"), 0.0, {}
            terms["b"] = truncs["b"] = False
        return observations, rewards, terms, truncs, infos


class Silent(Ledger):
    """Reports no observation once everybody is gone, nor infos before."""

    def reset(self, seed=None, options=None):
        return super().reset(seed, options)[0], {}

    def step(self, actions):
        observations, rewards, terms, truncs, _ = super().step(actions)
        infos = {"a": {"x": self.t}} if "a" in self.agents else {}
        return (observations if self.agents else {}), rewards, terms, truncs, infos


class Leaving(Ledger):
    """Who terminates is flagged and rewarded, but no longer observed."""

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        for agent in [agent for agent in observations if terms[agent]]:
            del observations[agent], infos[agent]
        return observations, rewards, terms, truncs, infos


class Strangers(Ledger):
    """New agents whose names nobody announced: one in step 1, one in step 2."""

    def look(self, agent):
        if agent not in self.place:
            return np.array([self.tag, -1, self.episode, self.t], np.float32)
        return super().look(agent)

    def observation_space(self, agent):
        return Box(-1e9, 1e9, (4,), np.float32)

    def action_space(self, agent):
        return Discrete(5)

    def step(self, actions):
        known = {agent: action for agent, action in actions.items() if agent in self.place}
        others = [agent for agent in self.agents if agent not in self.place]
        assert set(actions) == set(self.agents), (actions, self.agents)
        self.agents = [agent for agent in self.agents if agent in self.place]
        observations, rewards, terms, truncs, infos = super().step(known)
        over = not self.agents
        new = [f"late_{self.t}"] if self.t in (1, 2) and not over else []
        for agent in others + new:
            observations[agent], infos[agent] = self.look(agent), {}
            rewards[agent] = 0.0 if agent in new else float(self.t)
            terms[agent], truncs[agent] = False, over
        self.agents += [] if over else others + new
        return observations, rewards, terms, truncs, infos


class Shuffled(Ledger):
    """Lists its dicts, and its agents, in another order each time."""

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        self.agents.reverse()
        return (dict(reversed(observations.items())), rewards, dict(reversed(terms.items())),
                truncs, infos)  # fmt: skip

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return dict(reversed(observations.items())), infos


class Random(Ledger):
    """The observation's third number is random."""

    def __init__(self, **options):
        super().__init__(**options)
        self.random = np.random.default_rng()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        return super().reset(seed, options)

    def look(self, agent):
        return np.array([self.tag, self.place[agent], self.random.random(), self.t], np.float32)


class Told(Ledger):
    """Observes what its last reset was given: the seed and options["k"]; -1 for None."""

    def look(self, agent):
        seed, options = self.seeds[-1], self.options[-1]
        given = -1 if not options else options.get("k", -2)
        return np.array([self.tag, -1 if seed is None else seed, given, self.t], np.float32)


class Looking(Ledger):
    """Observes with a function, in a space of the test's.

    Args:
        space: of every agent's observations, or a dict by agent.
        seen: environment, agent -> observation.
        does: the action space, or a dict by agent.
    """

    def __init__(self, space=None, seen=None, does=None, **options):
        super().__init__(**options)
        if space is not None:
            self.boxes = space if type(space) is dict else dict.fromkeys(self.boxes, space)
        if does is not None:
            self.choices = does if type(does) is dict else dict.fromkeys(self.choices, does)
        self.seen = seen

    def look(self, agent):
        return self.seen(self, agent) if self.seen else super().look(agent)


class ArrayRewards(Ledger):
    """Rewards are arrays of one number."""

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        rewards = {agent: np.array([value], np.float32) for agent, value in rewards.items()}
        return observations, rewards, terms, truncs, infos


class AllKey(Ledger):
    """Flags have the entry `__all__`."""

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        terms["__all__"], truncs["__all__"] = self.t == 1, False
        return observations, rewards, terms, truncs, infos


class Common(Ledger):
    """Infos have an entry for everybody."""

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return observations, {**infos, "__common__": {"weather": 3}}

    def step(self, actions):
        observations, rewards, terms, truncs, infos = super().step(actions)
        return observations, rewards, terms, truncs, {**infos, "__common__": {"weather": 4}}


class TakingTurns(Ledger):
    """Observes only who moves next, and rewards only who has just moved."""

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return {"a": observations["a"]}, {"a": infos["a"]}

    def step(self, actions):
        mover, following = "ab"[self.t % 2], "ab"[(self.t + 1) % 2]
        assert list(actions) == [mover], (mover, actions)
        observations, _, terms, truncs, infos = super().step(dict.fromkeys(self.agents, 0))
        seen = observations if not self.agents else {following: observations[following]}
        return seen, {mover: 1.0}, terms, truncs, infos


class Locked(Ledger):
    """Holds what can't be pickled."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = threading.Lock()


LOCK = threading.Lock()
"""One that a thread of the caller may hold."""


class NeedsLock(Ledger):
    """Takes a lock of its module when it is reset."""

    def reset(self, seed=None, options=None):
        with LOCK:
            return super().reset(seed, options)


class Slow(Ledger):
    """Every step takes a while, s."""

    def __init__(self, seconds=0.0, **options):
        super().__init__(**options)
        self.seconds = seconds

    def step(self, actions):
        time.sleep(self.seconds)
        return super().step(actions)


class Doubling(gymnasium.Wrapper):
    """A wrapper of single-agent environments, to be refused by vectors."""


class Turns(AECEnv):
    """a moves once, b twice in a row; the mover gets 1, the other -0.5; it ends after 6 moves.

    Args:
        order: who moves, again and again.
        moves: until the end.
    """

    metadata = {"name": "turns", "is_parallelizable": True, "render_modes": []}
    render_mode = None

    def __init__(self, order="abb", moves=6, **ignored):
        self.possible_agents, self.order, self.moves = ["a", "b"], order, moves

    def observation_space(self, agent):
        return Box(-1e9, 1e9, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def observe(self, agent):
        return np.array([self.count, self.possible_agents.index(agent)], np.float32)

    def reset(self, seed=None, options=None):
        self.agents, self.count = self.possible_agents[:], 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.order[0]

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[mover] = 0
        self.count += 1
        self.rewards = {agent: 1.0 if agent == mover else -0.5 for agent in self.agents}
        self._accumulate_rewards()
        self.agent_selection = self.order[self.count % len(self.order)]
        if self.count >= self.moves:
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]


GRAPHS = spaces.Graph(Box(-9, 9, (2,), np.float32), None)
NESTED = spaces.Dict(
    camera=Box(0, 255, (6, 5, 3), np.uint8),
    body=spaces.Dict(
        place=spaces.Tuple((Discrete(7), Discrete(7))), fuel=Box(0, 5, (1,), np.float64)
    ),
)


def graph(env, agent):
    return spaces.GraphInstance(np.full((2 + env.t, 2), env.tag, np.float32), None, None)


def nested(env, agent):
    return {
        "camera": np.full((6, 5, 3), 10 * env.tag, np.uint8),
        "body": {"place": (env.tag, 3), "fuel": np.array([0.1 + env.tag])},
    }


def stepped(env, agent):
    """An info that tells the time."""
    return {"t": env.t, "episode": env.episode}
