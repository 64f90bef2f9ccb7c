"""Baselines that need no library: a plain loop, one that packs, two at once, the slower half."""

import multiprocessing
import os
import time

import numpy as np
import workloads
from adapter import Adapter

__all__ = ["Loop", "Packing", "SlowerHalf", "TwoLoops"]


def to_core(number):
    """Stay on one of the usable cores, each loop on another: the ceiling needs both."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


class Loop(Adapter):
    """Step one after another; results are dropped as they come."""

    def start(self):
        self.envs = [workloads.make(self.workload) for _ in range(self.copies)]
        self.batches = self.by_name()
        self.reset(0)

    def reset(self, seed):
        for k, env in enumerate(self.envs):
            env.reset(seed=seed + k)

    def step(self):
        for env, actions in zip(self.envs, self.next(), strict=True):
            self.one(env, actions)

    @staticmethod
    def one(env, actions):
        """Step one environment, or begin again where it has ended."""
        if len(env.agents) < len(actions):
            actions = {agent: actions[agent] for agent in env.agents}
        env.step(actions)
        if not env.agents:
            env.reset()

    def close(self):
        for env in self.envs:
            env.close()


class Packing(Loop):
    """The same from arrays and into arrays, which are the same in every step."""

    def start(self):
        super().start()
        shape = (self.copies, len(self.names))
        self.batches = self.draw(*shape)
        self.seen = np.zeros((*shape, *self.observation_space.shape), self.observation_space.dtype)
        self.rewards = np.zeros(shape)
        self.terminated, self.truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        self.rows = [dict(zip(self.names, rows, strict=True)) for rows in self.seen]

    def step(self):
        for k, (env, row) in enumerate(zip(self.envs, self.next(), strict=True)):
            actions = dict(zip(self.names, row, strict=True))
            if len(env.agents) < len(actions):
                actions = {agent: actions[agent] for agent in env.agents}
            seen, rewards, terminations, truncations, _ = env.step(actions)
            if len(seen) == len(self.names):
                for target, value in zip(self.rows[k].values(), seen.values(), strict=True):
                    target[...] = value
                self.rewards[k] = list(rewards.values())
                self.terminated[k] = list(terminations.values())
                self.truncated[k] = list(truncations.values())
            else:
                self.scatter(k, seen, rewards, terminations, truncations)
            if not env.agents:
                env.reset()

    def scatter(self, k, seen, rewards, terminations, truncations):
        """Where somebody is missing."""
        self.seen[k] = 0
        for agent, value in seen.items():
            self.rows[k][agent][...] = value
        for place, agent in enumerate(self.names):
            self.rewards[k, place] = rewards.get(agent, 0.0)
            self.terminated[k, place] = terminations.get(agent, False)
            self.truncated[k, place] = truncations.get(agent, False)


class TwoLoops(Adapter):
    """Independent loops, each with its part of the copies: what no vector can be faster than.

    Nobody waits for anybody, so there is no step of all; the rates of the loops are added up. The
    policy runs in every loop after a step of all its environments.
    """

    def start(self):
        fork = multiprocessing.get_context("fork")
        size = self.copies // self.workers
        # Of each loop: environment steps so far, and when the last one ended, ns.
        self.marks = np.frombuffer(fork.RawArray("q", self.workers * 16), np.int64)
        self.marks = self.marks.reshape(self.workers, 16)
        self.loops = [
            fork.Process(target=self.run, args=(k, size), daemon=True) for k in range(self.workers)
        ]
        for loop in self.loops:
            loop.start()
        while not self.marks[:, 0].all():
            time.sleep(0.001)

    def run(self, number, size):
        """One loop, for ever."""
        to_core(number)
        mark = self.marks[number]
        loop = Loop(self.workload, size)
        loop.start()
        count, now, slow = 0, time.perf_counter_ns(), True
        while True:
            before = now
            for env, actions in zip(loop.envs, loop.next(), strict=True):
                loop.one(env, actions)
                count += 1
                if slow:  # a mark costs as much as a quick step, so those have one for all
                    mark[:2] = count, time.perf_counter_ns()
            if self.policy:
                workloads.burn(self.policy)
            now = time.perf_counter_ns()
            mark[:2] = count, now
            slow = now - before > 1e6

    def measure(self, seconds=0.5, steps=None, seed=None):
        time.sleep(0.03)
        before = self.read()
        time.sleep(seconds)
        after = self.read()
        counts, spans = (after - before).T
        rate = float((counts / spans).sum()) * 1e9
        mean = self.copies / rate * 1e6
        return {"mean_us": mean, "median_us": mean, "steps": int(counts.sum() / self.copies)}

    def read(self):
        """(loops, 2): count and time, of the same step."""
        values = []
        for mark in self.marks:
            while True:
                one = (int(mark[0]), int(mark[1]), int(mark[0]))
                if one[0] == one[2]:
                    break
            values.append(one[:2])
        return np.array(values)

    def close(self):
        for loop in self.loops:
            loop.kill()
            loop.join()


class SlowerHalf(Adapter):
    """The same draws in two loops at once; a step takes what the slower half of it took."""

    def start(self):
        fork = multiprocessing.get_context("fork")
        size = self.copies // 2
        self.pipes, self.loops = [], []
        for first in (0, size):
            ours, theirs = fork.Pipe()
            loop = fork.Process(target=self.run, args=(theirs, first, size), daemon=True)
            loop.start()
            theirs.close()
            self.pipes.append(ours)
            self.loops.append(loop)

    def run(self, pipe, first, size):
        """One half: steps when it is told to, and says how long each took."""
        to_core(int(first > 0))
        loop = Loop(self.workload, size)
        loop.start()
        while True:
            steps, seed = pipe.recv()
            loop.reset(seed + first)
            times = []
            for _ in range(steps):
                start = time.perf_counter()
                loop.step()
                times.append(time.perf_counter() - start)
            pipe.send(times)

    def measure(self, seconds=0.5, steps=200, seed=0):
        for pipe in self.pipes:
            pipe.send((steps, seed))
        halves = np.array([pipe.recv() for pipe in self.pipes])
        slower = halves.max(axis=0)
        return {
            "mean_us": float(slower.mean()) * 1e6,
            "median_us": float(np.median(slower)) * 1e6,
            "steps": steps,
        }

    def close(self):
        for loop in self.loops:
            loop.kill()
            loop.join()
