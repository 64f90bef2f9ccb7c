"""Small environments whose every value can be predicted, for the tests of the vectorizer."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Ledger(ParallelEnv):
    """Counts steps. An observation is [tag, agent, episode, t]; a reward 100 tag + 10 agent + t.

    Args:
        tag: tells environments apart.
        names: the agents.
        dies: agent -> the step in which it terminates.
        leaves: agent -> the step in which it is truncated.
        born: agent -> the step whose return first has it.
        horizon: the step in which everybody left is truncated.
        reuse: hand out the same arrays and dicts in every step.
        told: what an agent's info is, as a function of the environment and the agent.
    """

    metadata = {"name": "ledger", "render_modes": ["rgb_array"], "is_parallelizable": True}

    def __init__(
        self, tag=0, names=("a", "b", "c"), dies=None, leaves=None, born=None, horizon=4,
        reuse=False, told=None, render_mode=None, log=None,
    ):  # fmt: skip
        self.tag, self.possible_agents, self.horizon = tag, list(names), horizon
        self.dies, self.leaves, self.born = dies or {}, leaves or {}, born or {}
        self.reuse, self.told, self.render_mode, self.log = reuse, told, render_mode, log
        self.place = {agent: k for k, agent in enumerate(self.possible_agents)}
        self.boxes = {a: Box(-1e9, 1e9, (4,), np.float32) for a in self.possible_agents}
        self.choices = {a: Discrete(5) for a in self.possible_agents}
        self.kept = {a: np.zeros(4, np.float32) for a in self.possible_agents}
        self.infos = {a: {} for a in self.possible_agents}
        self.agents, self.episode, self.t = [], -1, 0
        self.seeds, self.options, self.actions = [], [], []

    def observation_space(self, agent):
        return self.boxes[agent]

    def action_space(self, agent):
        return self.choices[agent]

    def look(self, agent):
        value = [self.tag, self.place[agent], self.episode, self.t]
        if self.reuse:
            self.kept[agent][:] = value
            return self.kept[agent]
        return np.array(value, np.float32)

    def tell(self, agent):
        return self.told(self, agent) if self.told else {}

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.options.append(options)
        self.episode, self.t = self.episode + 1, 0
        self.agents = [a for a in self.possible_agents if a not in self.born]
        return {a: self.look(a) for a in self.agents}, {a: self.tell(a) for a in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), (sorted(actions), sorted(self.agents))
        self.actions.append(dict(actions))
        self.t += 1
        new = [a for a, t in self.born.items() if t == self.t]
        here = self.agents + new
        rewards = {a: 100.0 * self.tag + 10 * self.place[a] + self.t for a in self.agents}
        rewards.update(dict.fromkeys(new, 0.0))
        terms = {a: self.dies.get(a) == self.t for a in here}
        truncs = {
            a: self.leaves.get(a) == self.t or (self.t >= self.horizon and not terms[a])
            for a in here
        }
        observations = {a: self.look(a) for a in here}
        infos = {a: self.tell(a) for a in here}
        self.agents = [a for a in here if not (terms[a] or truncs[a])]
        return observations, rewards, terms, truncs, infos

    def state(self):
        return np.array([self.tag, self.episode, self.t], np.float32)

    def render(self):
        return np.full((4, 4, 3), self.tag, np.uint8)

    def close(self):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{self.tag}\n")


class Masked(Ledger):
    """Only one action is legal, (t + tag) mod 5, by a mask in the observation or in the info."""

    def __init__(self, where="observation", **options):
        super().__init__(**options)
        self.where = where
        if where == "observation":
            self.boxes = {
                a: gymnasium.spaces.Dict(
                    observation=Box(-1e9, 1e9, (4,), np.float32),
                    action_mask=Box(0, 1, (5,), np.int8),
                )
                for a in self.possible_agents
            }

    def mask(self):
        mask = np.zeros(5, np.int8)
        mask[(self.t + self.tag) % 5] = 1
        return mask

    def look(self, agent):
        seen = super().look(agent)
        if self.where == "observation":
            return {"observation": seen, "action_mask": self.mask()}
        return seen

    def tell(self, agent):
        return {"action_mask": self.mask()} if self.where == "info" else {}

    def step(self, actions):
        assert all(a == (self.t + self.tag) % 5 for a in actions.values()), "an illegal action"
        return super().step(actions)
