"""What rows need to know of an episode: whose flags wait, and what an agent earned."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..types import Array, BoolArray
from .contract import VecSpec
from .frames import Frame

__all__ = ["Earnings", "Together"]


class Together:
    """Flags that are held back until the whole environment ends (``dead="done_together"``).

    An agent that dies stays as an absorbing state: its flags are False until its environment
    ends, and then they say how it had ended. Who never lived is terminated with the environment.

    Args:
        spec: of the vector.
    """

    def __init__(self, spec: VecSpec) -> None:
        shape = spec.num_envs, len(spec.agents)
        self._terminated: BoolArray = np.zeros(shape, np.bool_)
        self._truncated: BoolArray = np.zeros(shape, np.bool_)

    def begin(self, envs: Any) -> None:
        """Forget what is held back in environments that begin an episode."""
        self._terminated[envs] = False
        self._truncated[envs] = False

    def state(self) -> dict[str, Array]:
        """What is held back, as arrays."""
        return {"terminated": self._terminated.copy(), "truncated": self._truncated.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Go on from a `state`."""
        self._terminated[:], self._truncated[:] = state["terminated"], state["truncated"]

    def flags(self, frame: Frame, envs: Array | None) -> tuple[BoolArray, BoolArray]:
        """What is shown instead of a frame's flags.

        Args:
            frame: of a step.
            envs: the environments of its rows; None: all in order.

        Returns:
            terminated, truncated: (rows, A).
        """
        rows: Any = slice(None) if envs is None else envs
        terminated = self._terminated[rows] | frame.terminated
        truncated = self._truncated[rows] | frame.truncated
        over = frame.over[:, None]
        self._terminated[rows] = terminated & ~over
        self._truncated[rows] = truncated & ~over
        never = ~(terminated | truncated)
        return (terminated | never) & over, truncated & over


class Earnings:
    """Return and length of every agent's life, told at its end as ``infos["episode"]``.

    Args:
        spec: of the vector.
    """

    def __init__(self, spec: VecSpec) -> None:
        shape = spec.num_envs, len(spec.agents)
        self._return: Array = np.zeros(shape)
        self._length: Array = np.zeros(shape, np.int64)
        self._start: Array = np.full(spec.num_envs, time.perf_counter())
        self._same_step = spec.mode == "same_step"

    def begin(self, envs: Any) -> None:
        """Start anew in environments that begin an episode."""
        self._return[envs] = 0.0
        self._length[envs] = 0
        self._start[envs] = time.perf_counter()

    def state(self) -> dict[str, Array]:
        """What everybody has earned so far, and for how long, as arrays."""
        spent = time.perf_counter() - self._start
        return {"return": self._return.copy(), "length": self._length.copy(), "spent": spent}

    def load(self, state: Mapping[str, Array]) -> None:
        """Go on from a `state`."""
        self._return[:], self._length[:] = state["return"], state["length"]
        self._start[:] = time.perf_counter() - state["spent"]

    def entries(self, frame: Frame, envs: Array | None) -> dict[str, Any]:
        """Add a step, and tell whose life it ended.

        Args:
            frame: of the step.
            envs: the environments of its rows; None: all in order.

        Returns:
            Empty where nobody ended; else ``episode``, a dict of (rows · A,) arrays: r the sum of
            rewards, float64, l the number of steps, int64, t the time since the reset in seconds,
            float64, each 0 where ``_episode``, (rows · A,) bool, is False.
        """
        if frame.usual and envs is None:
            self._return += frame.reward
            self._length += 1
            return {}
        rows: Any = slice(None) if envs is None else envs
        self._return[rows] += frame.reward
        self._length[rows] += frame.acted
        out: dict[str, Any] = {}
        if frame.flags.any():
            ended = frame.terminated | frame.truncated
            spent = np.round(time.perf_counter() - self._start[rows], 6)[:, None]
            out["episode"] = {
                "r": np.where(ended, self._return[rows], 0.0).reshape(-1),
                "l": np.where(ended, self._length[rows], 0).reshape(-1),
                "t": np.where(ended, spent, 0.0).reshape(-1),
            }
            out["_episode"] = ended.reshape(-1)
            # Who comes back under the same name lives anew.
            self._return[rows] = np.where(ended, 0.0, self._return[rows])
            self._length[rows] = np.where(ended, 0, self._length[rows])
        fresh = frame.over if self._same_step else frame.was_reset
        if fresh.any():
            self.begin(np.flatnonzero(fresh) if envs is None else envs[fresh])
        return out
