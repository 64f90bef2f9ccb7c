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
from .frames import Frame, FrameRing
from .link import Link
from .rescue import rescue, tell_restart
from .rows import quieten
from .sending import SLICE_NS, Sending, explaining
from .told import Told, kept_frame, later
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
        self._told = Told(self.spec, kept_frame(wire.layout, copy, self._restart))
        self._where = wire.answer_where[1:].copy()
        self._wanted = np.zeros(workers, np.uint64)
        self._ready = np.zeros(workers, np.uint8)
        self._urgent = ffi.new("uint32_t *")
        self._c_where = ffi.cast("uint64_t *", ffi.from_buffer(self._where))
        self._c_wanted = ffi.cast("uint64_t *", ffi.from_buffer(self._wanted))
        self._c_ready = ffi.cast("uint8_t *", ffi.from_buffer(self._ready))
        self._begin_flights()

    # ---- all at once

    @explaining
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
        if self._lost:  # not all environments do the same in this step
            self.send(np.arange(self.spec.num_envs))
            return self.recv(self.spec.num_envs)[1]
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
        failure = _first(failure, self._await(number, frame, side, until))
        failure = _first(failure, self._collect(number, frame, side))
        if failure is not None:
            raise failure
        return self._shown(frame, side, None)

    @explaining
    def reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> Frame:
        """Begin episodes in the chosen environments, all by default; the others stay.

        Workers that are gone are replaced first. The rows of those that stay are as they were
        told; where autoreset is not disabled, as the caller left them in the results before.

        Raises:
            Exception: whatever an environment raises, with a note that names it.
            WorkerDiedError: a worker has ended.
            StepTimeoutError: an environment takes too long.
        """
        self._must_be_usable()
        self.drain()
        self._replace_dead(chosen)
        begun: Any = range(self.spec.num_envs) if chosen is None else np.flatnonzero(chosen)
        self._lost.difference_update(map(int, begun))
        self._told.reset(chosen, seeds, options)
        frame, last = self._next(), self._told.kept or self._last
        if chosen is not None:
            if last is not frame:
                frame.become(last)
            quieten(frame, ~chosen)
        until = self._crew.until()
        asked = [
            (link, self._try_reset(link, frame, chosen, seeds, options))
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
                data = None if number is None else self._reply_or_none(link, number, until)
                while data is None:
                    number = self._reset_anew(link, frame, chosen, seeds, options)
                    until = self._crew.until()
                    data = None if number is None else self._reply_or_none(link, number, until)
                side.update(sides.loads(data))
                if link.restarted:
                    mine = link.envs if chosen is None else np.flatnonzero(chosen).tolist()
                    mine = [env for env in mine if env in link.envs]
                    tell_restart(self.spec, side, mine, link.restarts)
            except EnvFailure as error:
                failure = _first(failure, error)
            link.restarted = False
        if failure is not None:
            raise failure
        self._told.begun(begun)
        return self._shown(frame, side, chosen)

    def _reply_or_none(self, link: Link, number: int, until: float | None) -> Any:
        """The answer; None: the worker has ended, and may be replaced."""
        try:
            return self._crew.reply(link, number, until)
        except WorkerDiedError:
            if not self._restart:
                raise
            return None

    def _try_reset(
        self, link: Link, frame: Frame, chosen: Any, seeds: Sequence[Any], options: Sequence[Any]
    ) -> int | None:
        """The number of the question; None: as above."""
        try:
            return self._ask_reset(link, frame, chosen, seeds, options)
        except WorkerDiedError:
            if not self._restart:
                raise
            return None

    def _reset_anew(
        self, link: Link, frame: Frame, chosen: Any, seeds: Sequence[Any], options: Sequence[Any]
    ) -> int | None:
        """In the place of a worker that ended meanwhile; as `_try_reset`."""
        stays = np.zeros(link.hi - link.lo, np.bool_)
        if chosen is not None:
            stays = ~chosen[link.lo : link.hi]
        self._replace(link, stays, count=True)
        link.restarted = True
        shifted = [later(seed, link.restarts) for seed in seeds]
        return self._try_reset(link, frame, chosen, shifted, options)

    def _ask_reset(
        self, link: Link, frame: Frame, chosen: Any, seeds: Sequence[Any], options: Sequence[Any]
    ) -> int:  # fmt: skip
        rows = slice(link.lo, link.hi)
        return self._crew.ask(
            link, "reset", self._numbers[id(frame)], chosen, seeds[rows], list(options[rows])
        )  # fmt: skip

    # ---- orders

    def _order(self, frame: Frame) -> int:
        """Tell every worker to step into this frame."""
        crew, wire = self._crew, self._wire
        crew.number += 1
        number = self._owed = crew.number
        wire.orders[:, 1] = self._numbers[id(frame)]
        wire.orders[:, 0] = number
        beside = self.actions.side
        with crew.announcing(self._links) if beside else contextlib.nullcontext():
            if beside:
                wire.orders[:, 2] += 1
            for bell in wire.bells:
                lib.seer_bell_ring(bell, number)
            for link in self._links if beside else ():
                mine = {env: acts for env, acts in beside.items() if link.lo <= env < link.hi}
                with contextlib.suppress(WorkerDiedError):  # noticed in the wait for it
                    crew.follow(link, "beside", mine)
        return number

    def _await(
        self, number: int, frame: Frame, side: Side, until: float | None
    ) -> EnvFailure | None:
        """Wait for every worker's answer; the first failure of those that were replaced."""
        wire, count = self._wire, len(self._links)
        failure: EnvFailure | None = None
        self._wanted[:] = number
        while True:
            have = lib.seer_result_gather(
                wire.collector, wire.base, self._c_where, self._c_wanted, count, count,
                self._spin, SLICE_NS, self._c_ready, self._urgent,
            )  # fmt: skip
            if have == count:
                self._owed = 0
                return failure
            if self._closed:
                raise ClosedError("the vector was closed meanwhile")
            for link, ready in zip(self._links, self._ready.tolist(), strict=True):
                if not ready and not link.alive():
                    failure = _first(failure, self._mourn(link, number, frame, side))
            if until is not None and time.monotonic() > until:
                raise self._crew.late([
                    link for link, ready in zip(self._links, self._ready, strict=True) if not ready
                ])  # fmt: skip

    def _mourn(self, link: Link, number: int, frame: Frame, side: Side) -> EnvFailure | None:
        """A worker has ended in the midst of a step: an error, or another in its place."""
        failure: EnvFailure | None = None
        while True:
            if not self._restart or not self._crew.may_restart():
                raise link.died()
            try:
                self._crew.replace(link, self._told.before(link.lo, link.hi, link.restarts + 1))
                side.update(self._rescue(link, frame, list(link.envs)))
            except WorkerDiedError:  # the new one has ended, too
                continue
            except EnvFailure as error:
                failure = error
            break
        # There is an answer, though the worker didn't give it: nobody shall wait for it.
        self._wire.say(link.host, None, 0)
        self._wire.publish(link.host, None, number)
        return failure

    def _rescue(self, link: Link, frame: Frame, envs: list[int]) -> Side:
        """Rows of environments that live in a new worker now."""
        side = Side()

        def renew(which: list[int]) -> None:
            number = self._crew.ask(link, "renew", self._numbers[id(frame)], which)
            side.update(sides.loads(self._crew.reply(link, number, self._crew.until())))

        rescue(self.spec, frame, self._told, envs, renew, side, link.restarts)
        return side

    def _collect(self, number: int, frame: Frame, side: Side) -> EnvFailure | None:
        """What the workers have to tell besides their rows; the first of the failures."""
        wire = self._wire
        told = wire.told()
        if told is None:
            return None
        failure: EnvFailure | None = None
        for link, (status, length) in zip(self._links, told, strict=True):
            if status in (FAILED, SPILLED):
                try:
                    side.update(sides.loads(self._crew.reply(link, number, self._crew.until())))
                except EnvFailure as error:
                    failure = _first(failure, error)
                except WorkerDiedError:  # between the answer and what follows it
                    failure = _first(failure, self._mourn(link, number, frame, side))
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
        self._told.all(frame, side, chosen, frame is self._spare)
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

    def drain(self) -> None:
        """Wait for what is in flight, and forget it."""
        self._crew.make_good()
        if self._owed:
            self._finish_owed()
        self._drain_sent()

    def _finish_owed(self) -> None:
        """Wait for an order that was interrupted, but not for workers that are gone."""
        number, self._owed = self._owed, 0
        until = self._crew.until()
        wire = self._wire
        if (wire.orders[:, 0] != number).any():
            return  # it was not given
        self._crew.number += 1
        for bell in wire.bells:  # perhaps not all were rung
            lib.seer_bell_ring(bell, self._crew.number)
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


def _first(one: EnvFailure | None, other: EnvFailure | None) -> EnvFailure | None:
    """That of the least environment."""
    if one is None or other is None:
        return one or other
    return other if other.env < one.env else one
