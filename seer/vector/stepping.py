"""Stepping and resetting all environments at once, with workers.

A step rings every worker once, lets the caller step its own share meanwhile, and waits for the
workers' answers; rewards, flags and observations are in the frame by then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._native import ffi, lib
from ..errors import ClosedError, StateError, WorkerDiedError
from ..types import BoolArray
from . import side as sides
from .contract import EnvFailure, Side
from .crew import Link
from .frames import Frame, FrameRing
from .rescue import rescue, tell_restart
from .sending import SLICE_NS, Sending
from .serial import explained
from .wire import FAILED, SPILLED

__all__ = ["Stepping"]


class Stepping(Sending):
    """The synchronous half of the process backend."""

    def _begin_stepping(self, copy: bool) -> None:
        wire, workers = self._wire, len(self._links)
        roots, count = wire.roots, len(wire.roots)
        self._ring = FrameRing(wire.layout, count - 1, lambda k: roots[k], copy)
        # Never handed out: what is written here is copied.
        self._spare = wire.frame(count - 1)
        self._last = self._spare
        self._numbers = {id(frame): k for k, frame in enumerate(self._ring.frames)}
        self._numbers[id(self._spare)] = count - 1
        self._plain = self.spec.batchable
        self._owed = 0  # number of the order that not all workers have answered
        self._seeds: list[int | None] = [None] * self.spec.num_envs
        self._where = wire.answer_where[1:].copy()
        self._wanted = np.zeros(workers, np.uint64)
        self._ready = np.zeros(workers, np.uint8)
        self._urgent = ffi.new("uint32_t *")
        self._c_where = ffi.cast("uint64_t *", ffi.from_buffer(self._where))
        self._c_wanted = ffi.cast("uint64_t *", ffi.from_buffer(self._wanted))
        self._c_ready = ffi.cast("uint8_t *", ffi.from_buffer(self._ready))
        self._begin_sending()

    # ---- all at once

    def step(self) -> Frame:
        """Step, or automatically reset, every environment.

        Raises:
            Exception: whatever an environment raises, with a note that names it.
            WorkerDiedError: a worker has ended.
            StepTimeoutError: an environment takes too long.
        """
        self._must_be_usable()
        for link in self._links:
            if link.dead and not self._restart:
                raise StateError("a worker is gone; reset replaces it") from link.why
        frame = self._next()
        until = self._crew.until()
        number = self._order(frame)
        failure: EnvFailure | None = None
        side = Side()
        if self._host.cells:
            try:
                side = self._host.step(frame, self.actions)
            except EnvFailure as error:
                failure = error
        self._await(number, frame, side, until)
        failure = self._collect(number, side, failure)
        if failure is not None:
            raise explained(failure) from failure.error.__cause__
        return self._shown(frame, side, None)

    def reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> Frame:
        """Begin episodes in the chosen environments, all by default; the others stay.

        Workers that are gone are replaced first.

        Raises:
            Exception: whatever an environment raises, with a note that names it.
            WorkerDiedError: a worker has ended.
            StepTimeoutError: an environment takes too long.
        """
        self._must_be_usable()
        self.drain()
        self._revive()
        seeds = list(seeds)
        self._note_seeds(chosen, seeds)
        frame, last = self._next(), self._last
        if chosen is not None:
            if last is not frame:
                frame.become(last)
            self._quieten(frame, ~chosen)
        until = self._crew.until()
        asked = [
            (link, self._ask_reset(link, frame, chosen, seeds, options))
            for link in self._links
            if chosen is None or chosen[link.lo : link.hi].any()
        ]
        side = Side()
        failure: EnvFailure | None = None
        try:
            side = self._host.reset(frame, chosen, seeds, options)
        except EnvFailure as error:
            failure = error
        for link, number in asked:
            try:
                try:
                    data = self._crew.reply(link, number, until)
                except WorkerDiedError:
                    if not self._restart or not self._crew.may_restart():
                        raise
                    self._crew.replace(link, None)
                    shifted = [None if s is None else s + (link.restarts << 32) for s in seeds]
                    number = self._ask_reset(link, frame, chosen, shifted, options)
                    data = self._crew.reply(link, number, self._crew.until())
                    tell_restart(self.spec, side, link.envs, link.restarts)
                side.update(sides.loads(data))
            except EnvFailure as error:
                failure = error if failure is None or error.env < failure.env else failure
        if failure is not None:
            raise explained(failure) from failure.error.__cause__
        return self._shown(frame, side, chosen)

    def _ask_reset(
        self, link: Link, frame: Frame, chosen: Any, seeds: Sequence[Any], options: Sequence[Any]
    ) -> int:  # fmt: skip
        rows = slice(link.lo, link.hi)
        return self._crew.ask(
            link, "reset", self._numbers[id(frame)], chosen, seeds[rows], list(options[rows])
        )  # fmt: skip

    def _note_seeds(self, chosen: BoolArray | None, seeds: list[int | None]) -> None:
        """Remember what each environment was seeded with, for a restart."""
        for env, seed in enumerate(seeds):
            if seed is not None and (chosen is None or chosen[env]):
                self._seeds[env] = seed

    # ---- orders

    def _order(self, frame: Frame) -> int:
        """Tell every worker to step into this frame."""
        crew, wire = self._crew, self._wire
        crew.number += 1
        number = self._owed = crew.number
        wire.orders[:, 1] = self._numbers[id(frame)]
        wire.orders[:, 0] = number
        beside = self.actions.side
        if beside:
            wire.orders[:, 2] += 1
        for bell in wire.bells:
            lib.seer_bell_ring(bell, number)
        if beside:
            for link in self._links:
                mine = {env: acts for env, acts in beside.items() if link.lo <= env < link.hi}
                with contextlib.suppress(WorkerDiedError):  # noticed in the wait for it
                    crew.follow(link, "beside", mine)
        return number

    def _await(self, number: int, frame: Frame, side: Side, until: float | None) -> None:
        """Wait for every worker's answer."""
        wire, count = self._wire, len(self._links)
        self._wanted[:] = number
        while True:
            have = lib.seer_result_gather(
                wire.collector, wire.base, self._c_where, self._c_wanted, count, count,
                self._spin, SLICE_NS, self._c_ready, self._urgent,
            )  # fmt: skip
            if have == count:
                self._owed = 0
                return
            if self._closed:
                raise ClosedError("the vector was closed meanwhile")
            for link, ready in zip(self._links, self._ready.tolist(), strict=True):
                if not ready and not link.alive():
                    self._mourn(link, number, frame, side)
            if until is not None and time.monotonic() > until:
                raise self._crew.late([
                    link for link, ready in zip(self._links, self._ready, strict=True) if not ready
                ])  # fmt: skip

    def _mourn(self, link: Link, number: int, frame: Frame, side: Side) -> None:
        """A worker has ended in the midst of a step: an error, or another in its place."""
        error = link.died()
        if not self._restart or not self._crew.may_restart():
            raise error
        seeds = self._seeds_anew(link)
        self._crew.replace(link, seeds)
        side.update(self._rescue(link, frame, list(link.envs)))
        self._wire.say(link.host, None, 0)
        self._wire.publish(link.host, None, number)

    def _rescue(self, link: Link, frame: Frame, envs: list[int]) -> Side:
        """Rows of environments that live in a new worker now."""
        side = Side()

        def renew(which: list[int]) -> None:
            number = self._crew.ask(link, "renew", self._numbers[id(frame)], which)
            side.update(sides.loads(self._crew.reply(link, number, self._crew.until())))

        rescue(self.spec, frame, self._last, envs, renew, side, link.restarts)
        return side

    def _seeds_anew(self, link: Link) -> list[int | None]:
        """For the environments of the next worker in this place."""
        more = (link.restarts + 1) << 32
        return [None if s is None else s + more for s in self._seeds[link.lo : link.hi]]

    def _collect(self, number: int, side: Side, failure: EnvFailure | None) -> EnvFailure | None:
        """What the workers have to tell besides their rows; the first of the failures."""
        wire = self._wire
        told = wire.told()
        if told is None:
            return failure
        for link, (status, length) in zip(self._links, told, strict=True):
            if status in (FAILED, SPILLED):
                try:
                    side.update(sides.loads(self._crew.reply(link, number)))
                except EnvFailure as error:
                    failure = error if failure is None or error.env < failure.env else failure
            elif length:
                side.update(sides.loads(wire.get(link.host, None, length)))
        return failure

    # ---- frames

    def _next(self) -> Frame:
        frame = self._ring.next()
        if frame is None:
            frame = self._spare
            frame.side = Side()
        return frame

    def _shown(self, frame: Frame, side: Side, chosen: BoolArray | None) -> Frame:
        """The frame as it is handed out."""
        frame.side = side
        self._last = frame
        if not self._plain:
            self._place_objects(frame, side, chosen)
        return frame.copy() if frame is self._spare else self._ring.shown(frame)

    def _place_objects(self, frame: Frame, side: Side, chosen: BoolArray | None) -> None:
        """Leaves that can't be batched come with the side; who has none has None."""
        for link in self._links:
            rows: Any = slice(link.lo, link.hi)
            if chosen is not None:
                rows = link.lo + np.flatnonzero(chosen[rows])
            for leaves in frame.obs:
                for leaf in leaves:
                    if leaf.dtype == object:
                        leaf[rows] = None
        for (what, g, k), cells in side.objects.items():
            target = frame.obs if what == "obs" else frame.final_obs
            if target is not None:
                for at, value in cells.items():
                    target[g][k][at] = value

    @staticmethod
    def _quieten(frame: Frame, rows: BoolArray) -> None:
        """The rows of environments that a reset leaves alone."""
        frame.flags[:, rows] = False
        frame.acted[rows] = False
        frame.reward[rows] = 0.0
        frame.over[rows] = False
        frame.was_reset[rows] = False

    def drain(self) -> None:
        """Wait for what is in flight, and forget it."""
        if self._owed:
            self._finish_owed()
        self._drain_sent()

    def _finish_owed(self) -> None:
        """Wait for an order that was interrupted, but not for workers that are gone."""
        number, self._owed = self._owed, 0
        until = self._crew.until()
        wire = self._wire
        for link in self._links:
            where = wire.base + int(wire.answer_where[link.host])
            while link.alive() and lib.seer_word_get(where) != number:
                if until is not None and time.monotonic() > until:
                    self._crew.late([link])
                time.sleep(0.001)
            status, _ = wire.read(wire.answer_where[link.host])
            if not link.dead and status in (FAILED, SPILLED):
                with contextlib.suppress(Exception):  # of a step that nobody waits for now
                    self._crew.reply(link, number, until)
