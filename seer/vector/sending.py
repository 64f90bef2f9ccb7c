"""Asynchronous stepping with workers: `send`, `recv`, and what is in flight between them.

Every environment has a command and an answer of its own. A worker takes the oldest command first
and answers each as soon as it is done; `recv` takes the oldest answers first. Rows are written
into one frame that is never handed out: an environment's row is its own while it is in flight.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._native import ffi, lib
from ..errors import ClosedError, WorkerDiedError
from ..types import Array, BoolArray
from . import side as sides
from .contract import Actions, EnvFailure, Side, VecSpec
from .frames import Frame, FrameLayout
from .serial import explained
from .wire import FAILED, SPILLED, Wire

if TYPE_CHECKING:
    from .crew import Crew, Link
    from .host import Host

__all__ = ["SLICE_NS", "Sending"]

SLICE_NS = 20_000_000
"""How long the core waits at most before Python handles signals and looks for the dead, ns."""

_NEVER = 2**64 - 1
_LOOK = 0.05
"""How often to look for the dead at least, s."""


class Sending:
    """The asynchronous half of the process backend."""

    spec: VecSpec
    actions: Actions
    _wire: Wire
    _crew: Crew
    _links: list[Link]
    _host: Host
    _spare: Frame
    _last: Frame
    _spin: Any
    _closed: bool
    _restart: bool

    def _begin_sending(self) -> None:
        n = self.spec.num_envs
        self._flying: BoolArray = np.zeros(n, np.bool_)
        self._wanted_of = np.full(n, _NEVER, np.uint64)  # of those that fly
        self._ready_of = np.zeros(n, np.uint8)
        self._where_of = self._wire.result_where
        self._mine: deque[tuple[int, tuple[Any, Any] | None]] = deque()  # the caller's own
        self._fetched: dict[int, bytes | EnvFailure] = {}
        self._looked = 0.0
        self._lost: set[int] = set()  # cut off while nobody waited for them
        self._layouts: dict[int, FrameLayout] = {}
        self._urgent_of = ffi.new("uint32_t *")
        self._c_where_of = ffi.cast("uint64_t *", ffi.from_buffer(self._where_of))
        self._c_wanted_of = ffi.cast("uint64_t *", ffi.from_buffer(self._wanted_of))
        self._c_ready_of = ffi.cast("uint8_t *", ffi.from_buffer(self._ready_of))

    # ---- out

    def send(self, envs: Array) -> None:
        """Let environments step; what `actions` has for them must stay until `recv`."""
        self._must_be_usable()
        self._loosen()
        beside = self.actions.side
        for host, part in self._by_host(np.asarray(envs)):
            if host == 0:
                self._mine.extend((env, None) for env in part)
                self._number(part)
                continue
            link = self._links[host - 1]
            gone = [env for env in part if env in self._lost]
            if gone:
                self._cut_off(link, gone)
                part = [env for env in part if env not in gone]
            # The caller's own stay there until it steps them.
            given = {env: beside.pop(env) for env in part if env in beside}
            if given and not link.dead:
                self._crew.ask(link, "beside", given)
            self._command(link, part)

    def send_reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> None:
        """Let these environments begin an episode.

        Workers that are gone are replaced first.
        """
        self._must_be_usable()
        self._revive()
        self._loosen()
        self._note_seeds(chosen, list(seeds))
        all_envs = np.arange(self.spec.num_envs)
        for host, part in self._by_host(all_envs if chosen is None else all_envs[chosen]):
            self._lost.difference_update(part)
            if host == 0:
                self._mine.extend((env, (seeds[env], options[env])) for env in part)
                self._number(part)
                continue
            link = self._links[host - 1]
            first = self._crew.number + 2  # the message itself takes a number too
            resets = {env: (first + k, seeds[env], options[env]) for k, env in enumerate(part)}
            self._crew.ask(link, "begin", resets)
            self._command(link, part)

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

    def _loosen(self) -> None:
        """From now on the spare frame is where rows are."""
        if self._last is not self._spare:
            self._spare.become(self._last)
            self._last = self._spare

    # ---- back

    def recv(self, count: int) -> tuple[Array, Frame]:
        """The results that have been there longest.

        Args:
            count: how many.

        Returns:
            Environments, (count,) ascending, and their rows.

        Raises:
            Exception: whatever one of these environments raised, with a note that names it.
            WorkerDiedError: a worker has ended.
            StepTimeoutError: they don't come in time.
        """
        self._must_be_usable()
        self._wait_for(count, self._crew.until())
        ready = np.flatnonzero(self._ready_of)
        order = np.argsort(self._wire.tickets_of(ready), kind="stable")
        envs = np.sort(ready[order[:count]])
        self._flying[envs] = False
        self._wanted_of[envs] = _NEVER
        side, failure = self._sides_of(envs)
        if failure is not None:
            raise explained(failure) from failure.error.__cause__
        if not self._plain:
            chosen = np.zeros(self.spec.num_envs, np.bool_)
            chosen[envs] = True
            self._place_objects(self._spare, side, chosen)
        layout = self._layouts.get(count)
        if layout is None:
            layout = self._layouts[count] = FrameLayout(self.spec, count)
        frame = self._spare.pick(envs, layout)
        frame.side = side
        return envs, frame

    def _wait_for(self, count: int, until: float | None) -> None:
        """Until so many results are there; they are marked in `_ready_of`."""
        wire, n = self._wire, self.spec.num_envs
        while True:
            # The caller's own share comes when there is not enough without it.
            enough = self._ready_now() >= count
            if not enough and self._mine:
                self._step_mine()
                continue
            have = lib.seer_result_gather(
                wire.collector, wire.base, self._c_where_of, self._c_wanted_of, n, count,
                self._spin, SLICE_NS, self._c_ready_of, self._urgent_of,
            )  # fmt: skip
            self._fetch()
            now = time.monotonic()
            if have < count or now - self._looked > _LOOK:
                # Also when there is enough: those that are lost would never come.
                self._looked = now
                self._look_after()
            if have >= count:
                return
            if self._closed:
                raise ClosedError("the vector was closed meanwhile")
            if until is not None and time.monotonic() > until:
                self._give_up()

    def _ready_now(self) -> int:
        wire = self._wire
        return int(
            lib.seer_result_gather(
                wire.collector, wire.base, self._c_where_of, self._c_wanted_of,
                self.spec.num_envs, 0, self._spin, 0, self._c_ready_of, self._urgent_of,
            )
        )  # fmt: skip

    def _step_mine(self) -> None:
        env, reset = self._mine.popleft()
        data = b""
        try:
            if reset is None:
                side = self._host.step(self._spare, self.actions, (env,))
            else:
                side = self._host.begin(self._spare, env, *reset)
            if side:
                data = sides.dumps(side)
        except EnvFailure as failure:
            self._fetched[env] = failure
        if data:
            self._fetched[env] = data
        self.actions.side.pop(env, None)
        self._wire.say(0, env, 0)
        self._wire.publish(0, env, int(self._wanted_of[env]))

    def _fetch(self) -> None:
        """Read what came by the channel: a worker may be waiting for that."""
        ready = np.flatnonzero(self._ready_of)
        answers = self._wire.told_of(ready)
        for env, (status, _) in zip(ready.tolist(), answers, strict=True):
            if status in (SPILLED, FAILED) and env not in self._fetched:
                link = self._links[int(self._wire.host_of[env]) - 1]
                try:
                    self._fetched[env] = self._crew.reply(link, int(self._wanted_of[env]))
                except EnvFailure as failure:
                    self._fetched[env] = failure

    def _sides_of(self, envs: Array) -> tuple[Side, EnvFailure | None]:
        side = Side()
        for env, (_, length) in zip(envs.tolist(), self._wire.told_of(envs), strict=True):
            data: Any = self._fetched.pop(env, None)
            if isinstance(data, EnvFailure):
                return side, data
            if data is None and length:
                data = self._wire.get(int(self._wire.host_of[env]), env, length)
            if data:
                side.update(sides.loads(data))
        return side, None

    # ---- what goes wrong

    def _look_after(self) -> None:
        """Workers that ended while environments of theirs are in flight."""
        for link in self._links:
            rows = slice(link.lo, link.hi)
            missing = self._flying[rows] & (self._ready_of[rows] == 0)
            if not missing.any() or link.alive():
                continue
            error = link.died()
            if not self._restart or not self._crew.may_restart():
                raise error
            live = self._spare.live[rows].any(axis=1)
            self._crew.replace(link, self._seeds_anew(link))
            flying = (link.lo + np.flatnonzero(missing & live)).tolist()
            self._cut_off(link, flying)
            # Those that were about to begin an episode begin another.
            self._command(link, (link.lo + np.flatnonzero(missing & ~live)).tolist())
            idle = ~self._flying[rows] & live
            self._lost.update((link.lo + np.flatnonzero(idle)).tolist())

    def _cut_off(self, link: Link, envs: list[int]) -> None:
        """Answer for environments whose worker has ended."""
        self._lost.difference_update(envs)
        if not envs:
            return
        self._number([env for env in envs if not self._flying[env]])
        for env in envs:
            side = self._rescue(link, self._spare, [env])
            self._fetched[env] = sides.dumps(side)
            self._wire.say(link.host, env, 0)
            self._wire.publish(link.host, env, int(self._wanted_of[env]))

    def _give_up(self) -> None:
        missing = np.flatnonzero(self._flying & (self._ready_of == 0))
        hosts = set(self._wire.host_of[missing].tolist())
        raise self._crew.late(
            [link for link in self._links if link.host in hosts], missing.tolist()
        )  # fmt: skip

    def _drain_sent(self) -> None:
        """Wait for what flies, but not for workers that are gone, and forget it."""
        self._mine.clear()
        until = self._crew.until()
        for link in self._links:
            for env in link.envs:
                where = self._wire.base + int(self._where_of[env])
                while self._flying[env] and link.alive():
                    if lib.seer_word_get(where) == int(self._wanted_of[env]):
                        break
                    if until is not None and time.monotonic() > until:
                        self._crew.late([link], [env])
                    self._ready_now()
                    self._fetch()
                    time.sleep(0.0005)
        if self._flying.any():
            self._ready_now()
            with contextlib.suppress(WorkerDiedError):  # nobody waits for its results now
                self._fetch()
        self._flying[:] = False
        self._wanted_of[:] = _NEVER
        self._fetched.clear()
        self._lost.clear()

    # ---- of the other half

    _plain: bool

    def _must_be_usable(self) -> None:
        raise NotImplementedError

    def _revive(self) -> None:
        raise NotImplementedError

    def _note_seeds(self, chosen: BoolArray | None, seeds: list[int | None]) -> None:
        raise NotImplementedError

    def _seeds_anew(self, link: Link) -> list[int | None]:
        raise NotImplementedError

    def _rescue(self, link: Link, frame: Frame, envs: list[int]) -> Side:
        raise NotImplementedError

    def _place_objects(self, frame: Frame, side: Side, chosen: BoolArray | None) -> None:
        raise NotImplementedError
