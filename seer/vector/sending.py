"""Asynchronous stepping with workers: `send`, `recv`, and what is in flight between them.

A worker takes the oldest command first and answers each as soon as it is done; `recv` takes the
oldest answers first. Rows are written into one frame that is never handed out: an environment's
row is its own while it is in flight.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .._native import lib
from ..errors import ClosedError, WorkerDiedError
from ..types import Array, BoolArray
from . import side as sides
from .contract import EnvFailure, Side
from .flights import NEVER
from .frames import Frame, FrameLayout
from .rescue import tell_restart
from .serial import explained
from .succession import Succession

__all__ = ["SLICE_NS", "Sending", "explaining"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

SLICE_NS = 20_000_000
"""How long the core waits at most before Python handles signals and looks for the dead, ns."""

_LOOK = 0.05
"""How often to look for the dead at least, s."""


def explaining(act: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let what was raised in an environment come out as itself."""

    @functools.wraps(act)
    def explained_act(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return act(*args, **kwargs)
        except EnvFailure as failure:
            raise explained(failure) from failure.error.__cause__

    return explained_act


class Sending(Succession):
    """The asynchronous half of the process backend."""

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
                with contextlib.suppress(WorkerDiedError):  # noticed in the wait for it
                    self._crew.ask(link, "beside", given)
            self._command(link, part)

    @explaining
    def send_reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> None:
        """Let these environments begin an episode.

        Workers that are gone are replaced first.

        Raises:
            WorkerDiedError: with one of them episodes end that are not chosen.
        """
        self._must_be_usable()
        self._replace_dead(chosen)
        self._loosen()
        self._told.reset(chosen, seeds, options)
        all_envs = np.arange(self.spec.num_envs)
        for host, part in self._by_host(all_envs if chosen is None else all_envs[chosen]):
            self._lost.difference_update(part)
            self._resets.update((env, (seeds[env], options[env])) for env in part)
            if host == 0:
                self._mine.extend((env, self._resets[env]) for env in part)
                self._number(part)
            else:
                self._command_resets(self._links[host - 1], part)

    def _loosen(self) -> None:
        """From now on the spare frame is where rows are."""
        if self._last is not self._spare:
            self._spare.become(self._told.kept or self._last)
            self._last = self._spare
            self._told.loosen()

    # ---- back

    @explaining
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
        envs = np.sort(self._oldest(count))
        self._flying[envs] = False
        self._wanted_of[envs] = NEVER
        side, failure = self._sides_of(envs)
        if failure is not None:
            raise failure
        if self._renewed:
            for env in [env for env in envs.tolist() if env in self._renewed]:
                tell_restart(self.spec, side, [env], self._renewed.pop(env))
        if self._resets:
            begun = [env for env in envs.tolist() if self._resets.pop(env, None) is not None]
            self._told.begun(begun)
        self._told.some(self._spare, envs, side)
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
            have = self._ready_now()
            # The caller's own share comes when there is not enough without it, or in its turn.
            if self._mine and (have < count or self._my_turn(count)):
                self._step_mine()
                continue
            have = lib.seer_result_gather(
                wire.collector, wire.base, self._c_where_of, self._c_wanted_of, n, count,
                self._spin, SLICE_NS, self._c_ready_of, self._urgent_of,
            )  # fmt: skip
            have -= self._fetch()
            now = time.monotonic()
            if have < count or now - self._looked > _LOOK:
                # Also when there is enough: those that are lost would never come.
                self._looked = now
                if self._look_after():
                    continue
            if have >= count:
                return
            if self._closed:
                raise ClosedError("the vector was closed meanwhile")
            if until is not None and time.monotonic() > until:
                self._give_up()

    def _my_turn(self, count: int) -> bool:
        """Whether the caller's oldest was sent before one of those that are there."""
        mine = self._wanted_of[self._mine[0][0]]
        return bool(mine < self._wanted_of[self._oldest(count)].max(initial=0))

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

    def _drain_sent(self) -> None:
        """Wait for what flies, but not for workers that are gone, and forget it."""
        while self._mine:  # what was sent is stepped, wherever it lives
            self._step_mine()
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
            self._fetch()
            done = np.flatnonzero(self._flying & (self._ready_of != 0))
            self._told.begun([env for env in done.tolist() if env in self._resets])
            self._told.some(self._spare, done)
        self._flying[:] = False
        self._wanted_of[:] = NEVER
        self._fetched.clear()
        self._resets.clear()
        self._renewed.clear()
