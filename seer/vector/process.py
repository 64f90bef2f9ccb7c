"""The backend with workers: environments live in processes and meet in shared memory."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .._native import ffi
from ..errors import ClosedError, ForkedError
from ..hardware import usable_cpus
from .config import ProcessConfig
from .contract import EnvFailure, VecSpec
from .crew import Crew
from .describe import EnvDescription, describe
from .factory import construct, make_cell
from .frames import FrameLayout
from .host import Host
from .launch import vectors
from .link import Link
from .serial import explained
from .stepping import Stepping
from .wire import Wire

__all__ = ["Process"]

_SPIN_US = 50.0
_CLOSING = 5.0
"""How long environments may take to be closed, s."""


class Process(Stepping):
    """Environments in worker processes, and as many as are the caller's share in this one.

    Args:
        factories: (N,) zero-argument callables, each making one environment.
        ranges: [lo, hi) of each host in order: the caller's own share first, which may be empty,
            then those of the workers.
        build: makes the vector's specification of what its environments (N,) say of themselves.
        pool: the configuration in use; has ``explain()``.
        copy: False: the frames are read-only, and valid until the next call.
        timeout: how long a call may take, s; None: as long as it takes.
        on_worker_death: "raise", or "restart".
        start_method: "forkserver" (None), "spawn" or "fork".

    Attributes:
        spec: what `build` made.
        actions: what the next step gives to the environments; written by the caller.

    Raises:
        WorkerDiedError: a worker ended meanwhile.
        StepTimeoutError: the environments were not made within a minute, or `timeout`.
        OutOfMemoryError: the shared memory can't be had.
        Exception: whatever a factory or `build` raises.
    """

    def __init__(
        self,
        factories: Sequence[Callable[[], Any]],
        ranges: Sequence[tuple[int, int]],
        build: Callable[[list[EnvDescription]], VecSpec],
        *,
        pool: ProcessConfig,
        copy: bool = True,
        timeout: float | None = None,
        on_worker_death: str = "raise",
        start_method: str | None = None,
    ) -> None:
        self.pool = pool
        self._pid = os.getpid()
        self._timeout, self._restart = timeout, on_worker_death == "restart"
        workers, cpus = len(ranges) - 1, usable_cpus()
        self._crew = crew = Crew(
            factories, ranges, start_method or "forkserver", max(1, cpus // workers),
            _cpus_of(workers) if pool.pin else None, timeout,
        )  # fmt: skip
        own = slice(*ranges[0])
        envs: list[Any] = []
        try:
            crew.start()
            envs = construct(list(factories)[own], own.start)
            mine = [describe(env, f"environment {own.start + k}") for k, env in enumerate(envs)]
            told = [mine, *crew.descriptions()]
            self.spec = spec = build([one for part in told for one in part])
            frames = _frames(FrameLayout(spec).nbytes, copy)
            self._wire = wire = Wire(spec, ranges, frames)
            self.actions = wire.actions
            spin = _SPIN_US if pool.spin_us is None else pool.spin_us
            if pool.spin_us is None and workers + 1 > cpus:
                spin = 0.0  # whoever spins keeps another from running
            spin_ns = int(spin * 1000)
            self._spin = ffi.new("seer_spin *", {"most_ns": spin_ns})
            crew.connect(wire, frames, spin_ns)
            cells = [make_cell(env, spec, own.start + k) for k, env in enumerate(envs)]
            self._host = Host(spec, own.start, cells)
        except BaseException as error:
            # Who presses Ctrl-C wants it to end.
            crew.close(_CLOSING if isinstance(error, Exception) else 1.0)
            for env in envs:
                _close_quietly(env)
            if isinstance(error, EnvFailure):
                raise explained(error) from error.error.__cause__
            raise
        self._links, self._closed, self._ended = crew.links, False, False
        self._begin_stepping(copy)
        vectors.add(self)
        self._finalizer = weakref.finalize(self, _close, crew, self._host)
        self._finalizer.atexit = False  # `launch` closes vectors at exit, in order

    # ---- everything else

    def call(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], envs: Sequence[int]
    ) -> list[Any]:
        """What a method returns, or an attribute is, in each of `envs`."""
        return self._each(
            envs, lambda env: self._host.call(env, name, args, kwargs),
            lambda link, part: self._crew.ask(link, "call", name, tuple(args), kwargs, part),
        )  # fmt: skip

    def set_attr(self, name: str, values: Sequence[Any], envs: Sequence[int]) -> None:
        """Set an attribute in each of `envs`."""
        given = dict(zip(envs, values, strict=True))
        self._each(
            envs, lambda env: self._host.set_attr(env, name, given[env]),
            lambda link, part: self._crew.ask(link, "set", name, {e: given[e] for e in part}),
        )  # fmt: skip

    def render(self, envs: Sequence[int]) -> list[Any]:
        """A picture of each of `envs`."""
        return self._each(
            envs, self._host.render, lambda link, part: self._crew.ask(link, "render", part)
        )  # fmt: skip

    def _each(
        self,
        envs: Sequence[int],
        here: Callable[[int], Any],
        there: Callable[[Link, list[int]], int],
    ) -> list[Any]:
        """Ask every environment of `envs`, wherever it lives; the answers in their order."""
        self._must_be_usable()
        until = self._crew.until()
        out: dict[int, Any] = {}
        asked = []
        for link in self._links:
            part = [int(env) for env in envs if link.lo <= env < link.hi]
            if part:
                asked.append((link, part, there(link, part)))
        failure: EnvFailure | None = None
        for env in envs:
            if self._host.lo <= env < self._host.hi and failure is None:
                try:
                    out[int(env)] = here(int(env))
                except Exception as error:
                    failure = EnvFailure(int(env), error)
        for link, part, number in asked:
            try:
                answers = self._crew.reply(link, number, until)
                out.update(zip(part, answers or [None] * len(part), strict=True))
            except EnvFailure as error:
                failure = error if failure is None or error.env < failure.env else failure
        if failure is not None:
            raise explained(failure) from failure.error.__cause__
        return [out[int(env)] for env in envs]

    # ---- life and death

    def close(self, timeout: float | None = None) -> None:
        """Close every environment once, and end the workers. May be called at any time, twice.

        Raises:
            Exception: the first thing that an environment raised when it was closed.
        """
        if self._ended or self._pid != os.getpid():
            return
        self._closed = True
        vectors.discard(self)
        # Whoever interrupts this may call it again.
        failures = _close(self._crew, self._host, _CLOSING if timeout is None else timeout)
        self._finalizer.detach()
        self._ended = True
        if failures:
            raise explained(failures[0]) from failures[0].error.__cause__

    def _must_be_usable(self) -> None:
        if self._pid != os.getpid():
            raise ForkedError(
                "this process was forked after the vector was made, and its copy can't be used; "
                "make one in this process"
            )
        if self._closed:
            raise ClosedError("the vector is closed; make a new one")
        if self._crew.owing:
            self._crew.make_good()


def _close(crew: Crew, host: Host, timeout: float = _CLOSING) -> list[EnvFailure]:
    """Not a method: the finalizer must not hold the vector."""
    if crew.foreign:
        return []
    try:
        failures = host.close()
    except BaseException:
        crew.close(timeout)
        raise
    failures += crew.close(timeout)
    return sorted(failures, key=lambda failure: failure.env)


def _close_quietly(env: Any) -> None:
    with contextlib.suppress(Exception):  # another error is what matters
        env.close()


def _cpus_of(workers: int) -> list[int] | None:
    """To which CPU each worker is bound: all but the first in turn."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cpus = sorted(os.sched_getaffinity(0))
    return [cpus[(k + 1) % len(cpus)] for k in range(workers)]


def _frames(nbytes: int, copy: bool) -> int:
    """How many frames to make of this size: what a caller holds, one to write, a spare one."""
    if not copy:
        return 3
    return 5 if nbytes < 2**24 else 4
