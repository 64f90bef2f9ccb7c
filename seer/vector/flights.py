"""What is in flight between `send` and `recv`: numbers, commands, and what has come of them.

Every environment has a command and an answer of its own. It is in flight from the moment that it
gets a number until the answer to that number is received, or forgotten.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._native import ffi, lib
from ..errors import WorkerDiedError
from ..types import Array, BoolArray
from .contract import Actions, EnvFailure, Side, VecSpec
from .frames import Frame, FrameLayout
from .told import Told, later
from .wire import FAILED, SPILLED, Wire

if TYPE_CHECKING:
    from .crew import Crew
    from .host import Host
    from .link import Link

__all__ = ["NEVER", "Flights"]

NEVER = 2**64 - 1
"""A number that nobody answers."""


class Flights:
    """The environments in flight."""

    spec: VecSpec
    actions: Actions
    _wire: Wire
    _crew: Crew
    _links: list[Link]
    _host: Host
    _spare: Frame
    _last: Frame
    _told: Told
    _spin: Any
    _closed: bool
    _restart: bool

    def _begin_flights(self) -> None:
        n = self.spec.num_envs
        self._flying: BoolArray = np.zeros(n, np.bool_)
        self._wanted_of = np.full(n, NEVER, np.uint64)  # of those that fly
        self._ready_of = np.zeros(n, np.uint8)
        self._where_of = self._wire.result_where
        self._mine: deque[tuple[int, tuple[Any, Any] | None]] = deque()  # the caller's own
        self._fetched: dict[int, bytes | EnvFailure] = {}
        self._looked = 0.0
        self._lost: set[int] = set()  # cut off while nobody waited for them
        self._resets: dict[int, tuple[Any, Any]] = {}  # of those that fly to a reset
        self._renewed: dict[int, int] = {}  # began in a new worker: how many there were before
        self._layouts: dict[int, FrameLayout] = {}
        self._urgent_of = ffi.new("uint32_t *")
        self._c_where_of = ffi.cast("uint64_t *", ffi.from_buffer(self._where_of))
        self._c_wanted_of = ffi.cast("uint64_t *", ffi.from_buffer(self._wanted_of))
        self._c_ready_of = ffi.cast("uint8_t *", ffi.from_buffer(self._ready_of))

    # ---- out

    def _by_host(self, envs: Array) -> list[tuple[int, list[int]]]:
        hosts = self._wire.host_of[envs]
        return [(int(h), envs[hosts == h].tolist()) for h in np.unique(hosts)]

    def _number(self, envs: Sequence[int]) -> None:
        """Give each its number: from now on it flies."""
        for env in envs:
            self._crew.number += 1
            self._wanted_of[env] = self._crew.number
            self._flying[env] = True

    def _command(self, link: Link, envs: Sequence[int]) -> None:
        if envs:
            self._number(envs)
            for env in envs:
                lib.seer_word_put(self._wire.command_at[env], int(self._wanted_of[env]))
            lib.seer_bell_ring(self._wire.bells[link.number], self._crew.number)

    def _command_resets(self, link: Link, envs: Sequence[int], restarts: int = 0) -> None:
        if envs:
            first = self._crew.number + 2  # the message itself takes a number too
            resets = {}
            for k, env in enumerate(envs):
                seed, options = self._resets[env]
                resets[env] = (first + k, later(seed, restarts), options)
            with contextlib.suppress(WorkerDiedError):  # noticed in the wait for them
                self._crew.ask(link, "begin", resets)
            self._command(link, envs)

    # ---- back

    def _ready_now(self) -> int:
        wire = self._wire
        return int(
            lib.seer_result_gather(
                wire.collector, wire.base, self._c_where_of, self._c_wanted_of,
                self.spec.num_envs, 0, self._spin, 0, self._c_ready_of, self._urgent_of,
            )
        )  # fmt: skip

    def _oldest(self, count: int) -> Array:
        """The environments whose results have been there longest, (count,)."""
        ready = np.flatnonzero(self._ready_of)
        order = np.argsort(self._wire.tickets_of(ready), kind="stable")
        oldest: Array = ready[order[:count]]
        return oldest

    def _fetch(self) -> int:
        """Read what came by the channel: a worker may be waiting for that.

        Returns:
            How many of those that are ready are not: their worker ended before the rest came.
        """
        ready = np.flatnonzero(self._ready_of)
        answers = self._wire.told_of(ready)
        lost = 0
        for env, (status, _) in zip(ready.tolist(), answers, strict=True):
            if status in (SPILLED, FAILED) and env not in self._fetched:
                link = self._links[int(self._wire.host_of[env]) - 1]
                try:
                    self._fetched[env] = self._crew.reply(
                        link, int(self._wanted_of[env]), self._crew.until()
                    )
                except EnvFailure as failure:
                    self._fetched[env] = failure
                except WorkerDiedError:
                    self._number([env])  # which nobody answers
                    self._ready_of[env] = 0
                    lost += 1
        return lost

    def _missing(self, link: Link) -> BoolArray:
        rows = slice(link.lo, link.hi)
        missing: BoolArray = self._flying[rows] & (self._ready_of[rows] == 0)
        return missing

    # ---- of the other half

    _plain: bool

    def _must_be_usable(self) -> None:
        raise NotImplementedError

    def _rescue(self, link: Link, frame: Frame, envs: list[int]) -> Side:
        raise NotImplementedError

    def _place_objects(self, frame: Frame, side: Side, chosen: BoolArray | None) -> None:
        raise NotImplementedError
