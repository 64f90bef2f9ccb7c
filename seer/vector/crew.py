"""The workers of a vector as its caller sees them: made, talked to, watched, ended, replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .._native import lib
from ..errors import ClosedError, ConfigError, StateError, StepTimeoutError, WorkerDiedError
from .channel import Channel, Gone
from .child import Child
from .contract import EnvFailure
from .describe import EnvDescription
from .launch import launch
from .remote import dumps, loads, unpack_error
from .surroundings import look_around, registrations
from .wire import BUSY, Wire

__all__ = ["START_LIMIT", "Crew", "Link"]

START_LIMIT = 60.0
"""How long environments may take to be made unless the vector's timeout is longer, s."""

_MOST_RESTARTS, _RESTARTS_WITHIN = 3, 60.0


class Link:
    """A worker and what passes between it and the caller.

    Attributes:
        number: of the worker, from 0; its host is one more.
        lo, hi: its environments.
        dead: it has ended, or is given up and will be killed; `why` is the error that said so.
        restarts: how often it was replaced.
    """

    def __init__(self, number: int, lo: int, hi: int) -> None:
        self.number, self.host, self.lo, self.hi = number, number + 1, lo, hi
        self.child: Child
        self.channel: Channel
        self.dead = True
        self.why: Exception | None = None
        self.restarts = 0
        self.kept: dict[int, tuple[Any, ...]] = {}  # what came before it was asked for

    @property
    def envs(self) -> range:
        """The numbers of its environments."""
        return range(self.lo, self.hi)

    def alive(self) -> bool:
        """Whether the process runs."""
        return not self.dead and not self.child.ended()

    def died(self) -> WorkerDiedError:
        """The error that says how it ended."""
        self.dead = True
        code = self.child.exit_code()
        if code is None:
            how = "has ended, nobody knows how"
        elif code < 0:
            name = _signal_name(-code)
            how = f"was killed by signal {-code} ({name})"
            if name == "SIGKILL":
                how += ", as it is when memory runs out"
        else:
            how = f"ended with exit code {code}"
        self.why = WorkerDiedError(
            f"worker {self.number} (process {self.child.pid}), in which {these(self.envs)} lived, "
            f"{how}",
            worker=self.number, pid=self.child.pid, envs=tuple(self.envs), exitcode=code,
        )  # fmt: skip
        return self.why


class Crew:
    """All workers of a vector.

    Args:
        factories: (N,) zero-argument callables.
        ranges: [lo, hi) of every host; the first is the caller's own.
        method: how to start them.
        threads: how many threads a numeric library may use in each.
        cpus: (workers,) to which CPU each is bound; None: to none.
        timeout: how long a call may take, s; None: as long as it takes.
    """

    def __init__(
        self,
        factories: Sequence[Callable[[], Any]],
        ranges: Sequence[tuple[int, int]],
        method: str,
        threads: int,
        cpus: Sequence[int] | None,
        timeout: float | None,
    ) -> None:
        self._factories, self._method, self._threads = list(factories), method, threads
        self._cpus, self._timeout = cpus, timeout
        self.links = [Link(k, lo, hi) for k, (lo, hi) in enumerate(ranges[1:])]
        self.number = 0  # counts everything that is asked of anybody
        self.closed = False
        self._wire: Wire | None = None
        self._told: dict[str, Any] = {}
        self._restarted: deque[float] = deque(maxlen=_MOST_RESTARTS)
        self._pid = os.getpid()

    @property
    def foreign(self) -> bool:
        """This process is a fork of the one whose workers these are."""
        return self._pid != os.getpid()

    # ---- beginning

    def start(self) -> None:
        """Start every worker; they make their environments meanwhile."""
        if self._method == "fork":
            # Known to cloudpickle before, the caller's classes come back as themselves.
            with contextlib.suppress(Exception):  # what can't be pickled needn't be
                dumps(self._factories)
        for link in self.links:
            self._launch(link)
        for link in self.links:
            self._set_up(link)

    def descriptions(self) -> list[list[EnvDescription]]:
        """What the environments of every worker say of themselves."""
        until = time.monotonic() + max(START_LIMIT, self._timeout or 0.0)
        return [self.reply(link, 0, until) for link in self.links]

    def connect(self, wire: Wire, frames: int, spin_ns: int) -> None:
        """Let the workers join the shared memory."""
        self._wire = wire
        self._told = {
            "spec": wire.spec, "ranges": wire.ranges, "frames": frames, "spin_ns": spin_ns,
            "one_by_one": self._timeout is not None,
        }  # fmt: skip
        for link in self.links:
            self._join(link, None)
        for link in self.links:
            self.reply(link, 0, time.monotonic() + START_LIMIT)

    def _launch(self, link: Link) -> None:
        factories = self._factories[link.lo : link.hi]

        def body(channel_fd: int, caller_fd: int) -> None:
            from .worker import main

            main(channel_fd, caller_fd, factories)

        link.child = launch(self._method, body)
        link.channel = Channel(link.child.sock, link.alive)
        link.dead = False
        link.kept.clear()

    def _set_up(self, link: Link) -> None:
        forked = self._method == "fork"
        set_up = {
            "around": None if forked else look_around(),
            "cpu": None if self._cpus is None else self._cpus[link.number],
            "threads": self._threads,
            "threads_before": None if forked else 1,
            "lo": link.lo,
            # Apart, for it can be unpickled only after the path is set.
            "factories": None
            if forked
            else dumps((registrations(), self._factories[link.lo : link.hi])),
        }
        self._tell(link, dumps(set_up), beginning=True)

    def _join(self, link: Link, seeds: Sequence[int | None] | None) -> None:
        assert self._wire is not None
        told = {**self._told, "host": link.host, "seeds": seeds}
        self._tell(link, dumps(told), [self._wire.memory.fd], beginning=True)

    # ---- talking

    def ask(self, link: Link, name: str, *args: Any) -> int:
        """Send a message, and ring. `reply` takes the number that comes back.

        Raises:
            WorkerDiedError: there is nobody to talk to.
        """
        assert self._wire is not None
        self.number += 1
        data = dumps((self.number, name, *args))
        if link.dead:
            raise StateError(
                f"worker {link.number}, with {these(link.envs)}, is gone; reset replaces it"
            ) from link.why
        self._wire.orders[link.number, 2] += 1
        lib.seer_bell_ring(self._wire.bells[link.number], self.number)
        self._tell(link, data)
        return self.number

    def follow(self, link: Link, name: str, *args: Any) -> None:
        """Send a message that was counted and rung for already; there is no reply."""
        self._tell(link, dumps((0, name, *args)))

    def _tell(
        self, link: Link, data: bytes, fds: Sequence[int] = (), beginning: bool = False
    ) -> None:
        allowed = self._timeout
        if beginning:
            allowed = max(START_LIMIT, allowed or 0.0)
        until = None if allowed is None else time.monotonic() + allowed
        try:
            link.channel.send(data, until, fds)
        except Gone:
            raise self.lost(link) from None
        except TimeoutError:
            raise self.late([link]) from None

    def reply(self, link: Link, number: int, until: float | None = None) -> Any:
        """The answer to what was asked under this number.

        Raises:
            EnvFailure: an environment raised.
            Exception: what else went wrong in the worker.
            WorkerDiedError: it ended instead.
            StepTimeoutError: it is not there by `until` (of `time.monotonic`).
        """
        while number not in link.kept:
            try:
                got, *rest = loads(link.channel.recv(until))
            except Gone:
                raise self.lost(link) from None
            except TimeoutError:
                raise self.late([link]) from None
            link.kept[got] = tuple(rest)
        kind, *parts = link.kept.pop(number)
        if kind != "error":
            return parts[0]
        env, packed = parts
        error = unpack_error(packed)
        if env is None:
            raise error
        raise EnvFailure(env, error) from error.__cause__

    def until(self) -> float | None:
        """When what begins now must be done."""
        return None if self._timeout is None else time.monotonic() + self._timeout

    # ---- watching

    def lost(self, link: Link) -> Exception:
        """Why a worker doesn't answer."""
        if self.closed:
            return ClosedError("the vector was closed meanwhile")
        return link.died()

    def late(self, links: Sequence[Link], these_envs: Sequence[int] = ()) -> StepTimeoutError:
        """The error for workers that don't answer in time; they are given up.

        Args:
            links: of those workers.
            these_envs: whose results are missing, where that is known; else it is found out.
        """
        envs: list[int] = list(these_envs)
        hanging = []
        for link in links:
            link.dead = True
            if these_envs:
                continue
            waiting = list(link.envs)
            if self._wire is not None:
                status, at = self._wire.read(self._wire.answer_where[link.host])
                if status == BUSY:
                    hanging.append(at)
                    waiting = list(range(at, link.hi))
            envs += waiting
        allowed = self._timeout
        if self._wire is None or allowed is None:
            allowed = max(START_LIMIT, allowed or 0.0)
        what = f"{these(envs)} did not answer within {allowed:g} s"
        if hanging and len(envs) > len(hanging):
            what += (
                f"; {these(hanging)} {'hangs' if len(hanging) == 1 else 'hang'}, and others wait"
            )
        error = StepTimeoutError(
            f"{what}; reset replaces the workers in which they are",
            envs=tuple(envs), timeout=allowed,
        )  # fmt: skip
        for link in links:
            link.why = error
        return error

    # ---- replacing

    def may_restart(self) -> bool:
        """Whether a worker may be replaced now; counts it as replaced."""
        now = time.monotonic()
        full = len(self._restarted) == _MOST_RESTARTS
        if full and now - self._restarted[0] < _RESTARTS_WITHIN:
            return False
        self._restarted.append(now)
        return True

    def replace(self, link: Link, seeds: Sequence[int | None] | None) -> None:
        """A new worker with new environments in the place of one that is gone.

        Args:
            link: its process is killed if it still runs.
            seeds: for the first reset of each environment.

        Raises:
            ConfigError: the new environments are not as the old ones.
        """
        assert self._wire is not None
        self._end(link)
        self._launch(link)
        try:
            self._set_up(link)
            told = self.reply(link, 0, time.monotonic() + max(START_LIMIT, self._timeout or 0.0))
            self._check_alike(link, told)
            # Nothing that was asked of the old one is for the new one.
            for env in link.envs:
                self._wire.forget(env)
            self._join(link, seeds)
            self.reply(link, 0, time.monotonic() + START_LIMIT)
        except BaseException:
            link.dead = True
            raise
        link.restarts += 1

    def _check_alike(self, link: Link, told: Sequence[EnvDescription]) -> None:
        assert self._wire is not None
        known = set(self._wire.spec.agents)
        for env, description in zip(link.envs, told, strict=True):
            if description.agents is not None and not known.issuperset(description.agents):
                raise ConfigError(
                    f"environment {env}, made anew in another worker, has other agents than "
                    f"before: {sorted(set(description.agents) - known)}"
                )

    # ---- ending

    def _end(self, link: Link) -> None:
        if not hasattr(link, "child"):
            return
        link.dead = True
        link.child.kill()
        link.child.wait(5.0)
        link.channel.close()
        link.child.forget()

    def close(self, timeout: float) -> list[EnvFailure]:
        """Let every worker close its environments and end; kill those that don't.

        Args:
            timeout: how long to wait for them all, s.

        Returns:
            What environments raised while they were closed.
        """
        failures: list[EnvFailure] = []
        if self.closed or self.foreign:
            return failures
        self.closed = True
        until = time.monotonic() + timeout
        asked = []
        for link in self.links:
            if not link.dead:
                with contextlib.suppress(Exception):  # whoever doesn't hear is killed below
                    if self._wire is None:
                        self._tell(link, dumps(None))
                    else:
                        asked.append((link, self.ask(link, "close")))
        for link, number in asked:
            with contextlib.suppress(Exception):
                for env, packed in self.reply(link, number, until):
                    failures.append(EnvFailure(env, unpack_error(packed)))
        for link in self.links:
            if not link.dead:
                link.child.wait(max(0.1, until - time.monotonic()))
            self._end(link)
        if self._wire is not None:
            self._wire.memory.close_fd()
        return failures


def these(envs: Sequence[int]) -> str:
    """Environments by their numbers, for people."""
    envs = sorted(envs)
    if len(envs) == 1:
        return f"environment {envs[0]}"
    if len(envs) > 3 and envs[-1] - envs[0] == len(envs) - 1:
        return f"environments {envs[0]} to {envs[-1]}"
    return f"environments {', '.join(map(str, envs[:8]))}{', …' if len(envs) > 8 else ''}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
