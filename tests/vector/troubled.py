"""An environment in which something happens at a chosen place and time."""

import ctypes
import os
import signal
import threading
import time

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class TwoArgumentsError(Exception):
    """Can be pickled, but not unpickled: its constructor takes other arguments than `args`."""

    def __init__(self, code, place):
        super().__init__(f"code {code} at {place}")
        self.code, self.place = code, place


class HoldingError(RuntimeError):
    """Can't be pickled: it holds a lock."""

    def __init__(self, text):
        super().__init__(text)
        self.lock, self.number = threading.Lock(), 4711


class UnsayableError(Exception):
    """Can't even say what it is."""

    def __str__(self):
        raise RuntimeError("no")


def local_error():
    class LocalError(ValueError):
        pass

    return LocalError("made in a function")


def act(what):
    """Do what the name says."""
    kind, _, more = what.partition(":")
    if kind == "raise":
        raise ValueError(f"raised {more}")
    if kind == "two":
        raise TwoArgumentsError(17, "gate")
    if kind == "lock":
        raise HoldingError("held a lock")
    if kind == "unsayable":
        raise UnsayableError
    if kind == "local":
        raise local_error()
    if kind == "kill":
        os.kill(os.getpid(), int(more or signal.SIGKILL))
    if kind == "exit":
        os._exit(int(more or 3))
    if kind == "sysexit":
        raise SystemExit(int(more or 5))
    if kind == "segv":
        ctypes.string_at(0)
    if kind == "sleep":
        time.sleep(float(more))
    if kind == "hold":  # the interpreter, in C
        ctypes.PyDLL(None).usleep(int(float(more) * 1e6))
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


class Troubled(ParallelEnv):
    """Two agents; observations are (tag, seed of this episode, episode, t).

    Args:
        tag: of the environment.
        on: {"init" | "reset" | "step" | "render" | "close" | "call": what `act` does}.
        at: in which step; also in which reset, counted from 0.
        only: which tag; None: all.
        once: a file; what is to happen happens only if it doesn't exist, and makes it.
        horizon: length of an episode.
        log: a file; every close is noted there.
        pids: a file; every construction notes its process there.
    """

    metadata = {"name": "troubled", "render_modes": ["rgb_array"]}

    def __init__(
        self, tag=0, on=None, at=2, only=None, once=None, horizon=10**9, log=None, pids=None,
        render_mode="rgb_array",
    ):  # fmt: skip
        self.tag, self.on, self.at, self.only, self.once = tag, dict(on or {}), at, only, once
        self.horizon, self.log, self.render_mode = horizon, log, render_mode
        self.possible_agents, self.agents = ["a_0", "a_1"], []
        self.t, self.episode, self.seed = 0, -1, -1
        if pids:
            with open(pids, "a") as file:
                file.write(f"{tag} {os.getpid()}\n")
        self._happen("init", True)

    def observation_space(self, agent):
        return Box(-np.inf, np.inf, (4,), np.float64)

    def action_space(self, agent):
        return Discrete(5)

    def _happen(self, where, now):
        if where not in self.on or not now or self.only not in (None, self.tag):
            return
        if self.once:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        act(self.on[where])

    def _obs(self):
        return np.array([self.tag, self.seed, self.episode, self.t], np.float64)

    def reset(self, seed=None, options=None):
        self._happen("reset", self.episode + 1 == self.at)
        self.seed = -1 if seed is None else seed
        self.t, self.episode, self.agents = 0, self.episode + 1, list(self.possible_agents)
        return {a: self._obs() for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.t += 1
        self._happen("step", self.t == self.at)
        agents = list(self.agents)
        over = self.t >= self.horizon
        if over:
            self.agents = []
        return (
            {a: self._obs() for a in agents}, dict.fromkeys(agents, float(self.t)),
            dict.fromkeys(agents, False), dict.fromkeys(agents, over),
            {a: {"t": self.t} for a in agents},
        )  # fmt: skip

    def called(self, number=1):
        self._happen("call", True)
        return self.tag * number

    def lock(self):
        return threading.Lock()

    def render(self):
        self._happen("render", True)
        return np.full((2, 2, 3), self.tag, np.uint8)

    def close(self):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{self.tag}\n")
        self._happen("close", True)
