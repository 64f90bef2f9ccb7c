"""Environments to be vectorized, by name; needs gymnasium, pettingzoo and numpy alone.

- noop-N: N agents that see 16 numbers and do nothing; never ends
- busy-US: 8 agents; a step burns so many microseconds of processor time
- tail: 4 agents; a step burns 0.1 to 2 ms, mostly little: a truncated Pareto
- spread-N: mpe2's simple_spread_v3 with N agents, episodes of 25 steps
- pistonball: PettingZoo's pistonball_v6: 20 agents, images
- kaz: PettingZoo's knights_archers_zombies: 4 agents that die
"""

import functools
import importlib
import os
import time

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

__all__ = ["Busy", "Joint", "Noop", "Tail", "burn", "drawn", "factory", "joint_factory", "make"]

FLOATS = 16


def burn(seconds):
    """Keep the processor busy for so much of this thread's own time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Noop(ParallelEnv):
    """Agents that see the step's number and their own; the arrays are the same in every step."""

    metadata = {"name": "noop", "render_modes": []}
    render_mode = None

    def __init__(self, agents=8):
        self.possible_agents = [f"agent_{k}" for k in range(agents)]
        self.agents = []
        self.seen = np.zeros((agents, FLOATS), np.float32)
        self.seen[:, 1] = range(agents)
        self.views = dict(zip(self.possible_agents, self.seen, strict=True))
        self.rewards = dict.fromkeys(self.possible_agents, 1.0)
        self.flags = dict.fromkeys(self.possible_agents, False)
        box = spaces.Box(-np.inf, np.inf, (FLOATS,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, box)
        self.action_spaces = dict.fromkeys(self.possible_agents, spaces.Discrete(5))
        self.steps = 0

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.steps = 0
        self.seen[:, 0] = 0
        return self.views.copy(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        self.seen[:, 0] = self.steps
        infos = {agent: {} for agent in self.agents}
        return self.views.copy(), self.rewards.copy(), self.flags.copy(), self.flags.copy(), infos

    def render(self):
        return None

    def state(self):
        return self.seen

    def close(self):
        pass


class Busy(Noop):
    """A step takes a fixed time of the processor, s."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def step(self, actions):
        burn(self.seconds)
        return super().step(actions)


class Tail(Noop):
    """Steps of very different length; which ones follows from the seed."""

    shortest, longest, exponent = 1e-4, 2e-3, 1.2

    def __init__(self):
        super().__init__(4)
        self.random = np.random.default_rng()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        return super().reset(seed, options)

    def step(self, actions):
        within = 1 - (self.shortest / self.longest) ** self.exponent
        burn(self.shortest * (1 - self.random.random() * within) ** (-1 / self.exponent))
        return super().step(actions)


class Joint(gymnasium.Env):
    """All agents as one, for libraries of single agents: arrays of agents, the sum of rewards.

    An agent that is gone is zeros, and its actions are dropped.
    """

    render_mode = None

    def __init__(self, env):
        self.env = env
        self.names = list(env.possible_agents)
        count = len(self.names)
        seen, does = env.observation_space(self.names[0]), env.action_space(self.names[0])
        self.metadata = {**env.metadata, "render_modes": []}
        self.observation_space = spaces.Box(
            np.stack([seen.low] * count), np.stack([seen.high] * count), dtype=seen.dtype
        )
        if isinstance(does, spaces.Discrete):
            self.action_space = spaces.MultiDiscrete([does.n] * count)
        else:
            self.action_space = spaces.Box(
                np.stack([does.low] * count), np.stack([does.high] * count), dtype=does.dtype
            )
        self.rows = np.zeros((count, *seen.shape), seen.dtype)

    def _packed(self, observations):
        if len(observations) < len(self.names):
            self.rows[:] = 0
        for row, name in zip(self.rows, self.names, strict=True):
            if name in observations:
                row[...] = observations[name]
        return self.rows

    def reset(self, *, seed=None, options=None):
        return self._packed(self.env.reset(seed=seed, options=options)[0]), {}

    def step(self, actions):
        chosen = dict(zip(self.names, actions, strict=True))
        if len(self.env.agents) < len(chosen):
            chosen = {name: chosen[name] for name in self.env.agents}
        observations, rewards, _, truncations, _ = self.env.step(chosen)
        over = not self.env.agents
        cut = over and any(truncations.values())
        return self._packed(observations), float(sum(rewards.values())), over and not cut, cut, {}

    def close(self):
        self.env.close()


def make(name):
    """One environment."""
    kind, _, number = name.partition("-")
    if kind == "noop":
        return Noop(int(number))
    if kind == "busy":
        return Busy(float(number) * 1e-6)
    if kind == "tail":
        return Tail()
    if kind == "spread":
        return _module("mpe2", "simple_spread", 3).parallel_env(N=int(number), max_cycles=25)
    if kind == "pistonball":
        return _module("pettingzoo.butterfly", "pistonball", 6).parallel_env()
    if kind == "kaz":
        return _module("pettingzoo.butterfly", "knights_archers_zombies", 11, 10).parallel_env()
    raise ValueError(f"no workload {name!r}")


def _module(package, name, *versions):
    for version in versions[:-1]:
        try:
            return importlib.import_module(f"{package}.{name}_v{version}")
        except ImportError:
            continue
    return importlib.import_module(f"{package}.{name}_v{versions[-1]}")


def factory(name):
    """What makes one, to be sent to a worker."""
    return functools.partial(make, name)


def _make_joint(name):
    return Joint(make(name))


def joint_factory(name):
    """The same of one with all agents as one."""
    return functools.partial(_make_joint, name)


def drawn(space, shape, random):
    """Actions (*shape, *space.shape) of a Discrete or bounded Box."""
    if isinstance(space, spaces.Discrete):
        return random.integers(0, space.n, shape)
    return random.uniform(space.low, space.high, (*shape, *space.shape)).astype(space.dtype)
