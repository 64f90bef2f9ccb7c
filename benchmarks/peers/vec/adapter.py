"""What a contestant does: start, step, be timed. One subclass a library, beside this file."""

import gc
import statistics
import time

import numpy as np
import workloads

__all__ = ["BATCHES", "Adapter"]

BATCHES = 16  # of actions, drawn beforehand and used in turn


class Adapter:
    """Copies of a workload in one library.

    Args:
        workload: its name.
        copies: how many environments.
        workers: processes to use, where the library lets one choose.
        policy_us: processor time that a policy takes between two steps, us.
        options: the library's own.

    Attributes:
        per_step: environment steps that a call of `step` makes.
    """

    package = None
    """The distribution whose version is told."""

    def __init__(self, workload, copies, workers=2, policy_us=0.0, options=()):
        self.workload, self.copies, self.workers = workload, copies, workers
        self.policy, self.options = policy_us * 1e-6, dict(options)
        self.per_step = copies
        self.random = np.random.default_rng(0)
        self.turn = 0
        one = workloads.make(workload)
        self.names = list(one.possible_agents)
        self.action_space = one.action_space(self.names[0])
        self.observation_space = one.observation_space(self.names[0])
        one.close()

    # ---- what a library's adapter writes

    def start(self):
        """Make the environments and reset them."""
        raise NotImplementedError

    def step(self):
        """One step of them all, with actions handed over and results received."""
        raise NotImplementedError

    def reset(self, seed):
        """Begin again; environment i with seed + i."""
        raise NotImplementedError

    def close(self):
        pass

    # ---- what it may use

    def draw(self, *shape):
        """Random actions, the batches that `next` gives."""
        return [workloads.drawn(self.action_space, shape, self.random) for _ in range(BATCHES)]

    def by_name(self):
        """For each batch and environment a dict of agent to action."""
        return [
            [dict(zip(self.names, row, strict=True)) for row in batch]
            for batch in self.draw(self.copies, len(self.names))
        ]

    def next(self):
        """The next batch."""
        self.turn = (self.turn + 1) % BATCHES
        return self.batches[self.turn]

    # ---- timing

    def measure(self, seconds=0.5, steps=None, seed=None):
        """Step for a while.

        Args:
            seconds: how long.
            steps: exactly so many instead.
            seed: begin with a reset.

        Returns:
            "mean_us" and "median_us" of what `copies` environment steps take; "steps".
        """
        clock, policy, step = time.perf_counter, self.policy, self.step
        if seed is not None:
            self.reset(seed)
        else:
            self.warm_up()
        gc.collect()
        times = []
        begin = clock()
        while True:
            start = clock()
            step()
            now = clock()
            times.append(now - start)
            if policy:
                workloads.burn(policy)
                now = clock()
            if len(times) == steps if steps else now - begin > seconds:
                break
        scale = 1e6 * self.copies / self.per_step
        return {
            "mean_us": (now - begin) / len(times) * scale,
            "median_us": statistics.median(times) * scale,
            "steps": len(times),
        }

    def warm_up(self):
        """A few steps that nobody times: the contestant was asleep."""
        until = time.perf_counter() + 0.03
        for _ in range(100):
            self.step()
            if time.perf_counter() > until:
                break
