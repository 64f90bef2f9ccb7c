"""The backend without processes: the caller steps every environment itself."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array, BoolArray
from .cells import Cell
from .contract import NOBODY, Actions, EnvFailure, Side, VecSpec
from .frames import Frame, FrameLayout, FrameRing
from .host import Host
from .told import kept_frame

__all__ = ["Serial"]


class Serial:
    """All environments of a vector in this process.

    Args:
        spec: of the vector.
        cells: the environments.
        copy: False: the frames are read-only, and valid until the next call.
        pool: says how the environments are run; has ``explain()``.

    Attributes:
        actions: what the next step gives to the environments; written by the caller.
    """

    def __init__(
        self, spec: VecSpec, cells: Sequence[Cell], copy: bool = True, pool: Any = None
    ) -> None:
        self.spec, self.pool = spec, pool
        self.actions = Actions(spec)
        self._host = Host(spec, 0, cells)
        layout = FrameLayout(spec)
        self._ring = FrameRing(layout, size=4 if copy else 2, copy=copy)
        self._kept = kept_frame(layout, copy)
        self._waiting: deque[tuple[int, tuple[int | None, Any] | None]] = deque()
        self._picked: dict[int, FrameLayout] = {}

    # ---- all at once

    def reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> Frame:
        """Begin episodes in the chosen environments, all by default; the others stay.

        The rows of those that stay are as they were told; where autoreset is not disabled, as
        the caller left them in the results before.

        Raises:
            Exception: whatever an environment raises, with a note that names it.
        """
        frame = self._next(keep=chosen is not None)
        return self._filled(frame, lambda: self._host.reset(frame, chosen, seeds, options))

    def step(self) -> Frame:
        """Step, or automatically reset, every environment.

        Raises:
            Exception: whatever an environment raises, with a note that names it.
        """
        frame = self._ring.next()
        assert frame is not None  # private rings never run out
        try:
            frame.side = self._host.step(frame, self.actions)
        except EnvFailure as failure:
            raise explained(failure) from failure.error.__cause__
        if self._kept is not None:
            self._kept.become(frame)
        return self._ring.shown(frame)

    def _filled(self, frame: Frame, fill: Any) -> Frame:
        try:
            side: Side = fill()
        except EnvFailure as failure:
            raise explained(failure) from failure.error.__cause__
        frame.side = side
        if self._kept is not None:
            self._kept.become(frame)
        return self._ring.shown(frame)

    def _next(self, keep: bool = False) -> Frame:
        last = self._ring.last
        frame = self._ring.next()
        assert frame is not None  # private rings never run out
        if keep:
            frame.become(self._kept or last)
        return frame

    # ---- one after the other

    def send(self, envs: Array) -> None:
        """Let these environments step; what `actions` has for them must stay until `recv`."""
        self._waiting.extend((int(env), None) for env in envs)

    def send_reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> None:
        """Let these environments begin an episode."""
        for env in range(self.spec.num_envs):
            if chosen is None or chosen[env]:
                self._waiting.append((env, (seeds[env], options[env])))

    def recv(self, count: int) -> tuple[Array, Frame]:
        """The results of those that wait longest, in ascending order."""
        frame = self._next(keep=True)  # the last one may be in somebody's hands
        ready = sorted(self._waiting.popleft() for _ in range(count))
        side = Side()
        try:
            for env, reset in ready:
                if reset is None:
                    side.update(self._host.step(frame, self.actions, (env,)))
                else:
                    side.update(self._host.begin(frame, env, *reset))
        except EnvFailure as failure:
            raise explained(failure) from failure.error.__cause__
        envs = np.array([env for env, _ in ready])
        layout = self._picked.setdefault(count, FrameLayout(self.spec, count))
        out = frame.pick(envs, layout)
        out.side = side
        if self._kept is not None:
            self._kept.take_rows(frame, envs)
        return envs, out

    def drain(self) -> None:
        """Step what was sent, as workers have done by now, and forget it."""
        if not self._waiting:
            return
        frame = self._next(keep=True)
        waiting, self._waiting = self._waiting, deque()
        for env, reset in waiting:
            with contextlib.suppress(EnvFailure):  # nobody waits for its results
                if reset is None:
                    self._host.step(frame, self.actions, (env,))
                else:
                    self._host.begin(frame, env, *reset)
        if self._kept is not None:
            self._kept.become(frame)

    # ---- everything else

    def call(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], envs: Sequence[int]
    ) -> list[Any]:
        """What a method returns, or an attribute is, in each of `envs`."""
        return self._each(envs, lambda env: self._host.call(env, name, args, kwargs))

    def set_attr(self, name: str, values: Sequence[Any], envs: Sequence[int]) -> None:
        """Set an attribute in each of `envs`."""
        for env, value in zip(envs, values, strict=True):
            self._each([env], lambda one, v=value: self._host.set_attr(one, name, v))

    def render(self, envs: Sequence[int]) -> list[Any]:
        """A picture of each of `envs`."""
        return self._each(envs, self._host.render)

    def _each(self, envs: Sequence[int], act: Any) -> list[Any]:
        out = []
        for env in envs:
            try:
                out.append(act(env))
            except Exception as error:
                raise explained(EnvFailure(env, error)) from error.__cause__
        return out

    def close(self, timeout: float | None = None) -> None:
        """Close every environment once. May be called twice."""
        failures = self._host.close()
        if failures:
            raise explained(failures[0]) from failures[0].error.__cause__


def explained(failure: EnvFailure) -> BaseException:
    """The environment's own exception, with a note that says which environment it was.

    The number is also its attribute ``env``, where it can be set.
    """
    error = failure.error
    if failure.env == NOBODY:
        return error
    note = f"(in environment {failure.env} of the vector)"
    try:
        if note not in getattr(error, "__notes__", ()):
            add = getattr(error, "add_note", None)
            if add is not None:
                add(note)
            if getattr(error, "env", None) is None:
                error.env = failure.env  # type: ignore[attr-defined]
    except Exception:  # an exception that takes no attributes: its traceback still tells
        pass
    return error
