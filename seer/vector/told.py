"""What the caller was told last of every environment: what a restart goes on from.

A worker that ends may leave half-written rows behind, and the caller may write into its results.
So where rows will be needed again a private copy of them is kept, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..types import Array, BoolArray
from .contract import Side, VecSpec
from .frames import Frame, FrameLayout

__all__ = ["Guests", "Told", "kept_frame", "later"]


class Guests(NamedTuple):
    """Agents of an environment that were not announced.

    Attributes:
        slots: agent -> reserved slot.
        obs: live agent without a slot -> its last observation.
    """

    slots: dict[str, int]
    obs: dict[str, Any]


def kept_frame(layout: FrameLayout, copy: bool, restart: bool = False) -> Frame | None:
    """A private frame, where rows may be needed again that the caller can write into.

    Only where resets of some environments are the rule is it worth a copy in each step.
    """
    return layout.new() if restart or (copy and layout.spec.mode == "disabled") else None


class Told:
    """What the caller was told last.

    Args:
        spec: of the vector.
        kept: a private frame for the rows, or None.

    Attributes:
        kept: has all rows as they were told, whatever the caller or a worker did to them since.
        guests: of the environments that have any.
    """

    def __init__(self, spec: VecSpec, kept: Frame | None) -> None:
        n = spec.num_envs
        self.kept, self.guests = kept, dict[int, Guests]()
        self._spec = spec
        self._live: BoolArray = np.zeros((n, len(spec.agents)), np.bool_)
        self._strange = spec.open_names or spec.reserved > 0
        self._counts = callable(spec.options)
        self._episodes: Array = np.full(n, -1, np.int64)
        self._seeds: list[int | None] = [None] * n
        self._options: list[Any] = [None] * n

    def reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> None:
        """The caller wants these to begin an episode."""
        envs = range(self._spec.num_envs) if chosen is None else np.flatnonzero(chosen).tolist()
        for env in envs:
            self._options[env] = options[env]
            if seeds[env] is not None:
                self._seeds[env] = seeds[env]

    def begun(self, envs: Any) -> None:
        """Episodes that the caller wanted have begun in these."""
        self._episodes[envs] += 1

    def all(self, frame: Frame, side: Side, chosen: BoolArray | None, private: bool) -> None:
        """Everything in a frame is told.

        Args:
            frame: with all rows.
            side: what belongs to it.
            chosen: (N,) of which environments the side is; None: of all.
            private: whether it is written again while it is the last.
        """
        self._live = frame.live.copy() if private else frame.live
        if self.kept is not None:
            self.kept.become(frame)
        if self._counts:
            self._episodes += self._again(frame)
        if self._strange:
            envs = range(frame.rows) if chosen is None else np.flatnonzero(chosen).tolist()
            self._note(side, envs)

    def some(self, frame: Frame, envs: Array, side: Side | None = None) -> None:
        """Some rows of a frame that is not the caller's are told."""
        self._live[envs] = frame.live[envs]
        if self.kept is not None:
            self.kept.take_rows(frame, envs)
        if self._counts:
            self._episodes[envs] += self._again(frame)[envs]
        if self._strange and side is not None:
            self._note(side, envs.tolist())

    def loosen(self) -> None:
        """From now on rows are told one by one."""
        self._live = self._live.copy()

    def running(self, rows: Any) -> BoolArray:
        """Whether episodes run in these environments, (rows,) bool."""
        running: BoolArray = self._live[rows].any(axis=1)
        for env, guests in self.guests.items():
            if guests.obs:
                running |= np.arange(self._spec.num_envs)[rows] == env
        return running

    def live(self, rows: Any) -> BoolArray:
        """Who of these environments lives, (rows, A) bool."""
        live: BoolArray = self._live[rows].copy()
        return live

    def before(self, lo: int, hi: int, restarts: int) -> list[tuple[int | None, int, Any]]:
        """What the environments of a new worker must know of those in whose place they are.

        Args:
            lo, hi: which.
            restarts: how often the worker was replaced, this time included.

        Returns:
            Of each the seed for its first reset, its episode and the options of its last reset.
        """
        return [
            (later(self._seeds[env], restarts), int(self._episodes[env]), self._options[env])
            for env in range(lo, hi)
        ]

    def _again(self, frame: Frame) -> BoolArray:
        """Where an automatic reset has begun an episode."""
        begun: BoolArray = frame.over if self._spec.mode == "same_step" else frame.was_reset
        return begun

    def _note(self, side: Side, envs: Sequence[int]) -> None:
        for env in envs:
            extras = side.extras.get(env, {})
            had, seen = self.guests.pop(env, Guests({}, {})), extras.get("obs", {})
            obs = {name: seen.get(name, had.obs.get(name)) for name in extras.get("live", ())}
            slots = side.slots.get(env, {})
            if obs or slots:
                self.guests[env] = Guests(slots, obs)


def later(seed: int | None, restarts: int) -> int | None:
    """The seed of an environment after its worker was replaced."""
    return None if seed is None else seed + (restarts << 32)
