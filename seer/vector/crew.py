"""The workers of a vector as its caller sees them: made, talked to, watched, ended, replaced."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._native import lib
from ..errors import ClosedError, ConfigError, StateError, StepTimeoutError, WorkerDiedError
from .channel import Gone
from .contract import EnvFailure
from .describe import EnvDescription
from .launch import launch
from .link import Link, these
from .remote import dumps, loads, unpack_error
from .surroundings import look_around, registrations
from .wire import BUSY, Wire

__all__ = ["START_LIMIT", "Crew"]

START_LIMIT = 60.0
"""How long environments may take to be made unless the vector's timeout is longer, s."""

_MOST_RESTARTS, _RESTARTS_WITHIN = 3, 60.0


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
        self.owing: set[Link] = set()  # a message, perhaps
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

        link.begun(launch(self._method, body))

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

    def _join(self, link: Link, before: Sequence[tuple[Any, ...]] | None) -> None:
        assert self._wire is not None
        told = {**self._told, "host": link.host, "before": before}
        self._tell(link, dumps(told), [self._wire.memory.fd], beginning=True)

    # ---- talking

    def ask(self, link: Link, name: str, *args: Any) -> int:
        """Send a message, and ring. `reply` takes the number that comes back.

        Raises:
            WorkerDiedError: there is nobody to talk to.
        """
        assert self._wire is not None
        self.number += 1
        number, place = self.number, int(self._wire.orders[link.number, 2]) + 1
        data = _message(number, name, args, place)
        if link.dead:
            raise StateError(
                f"worker {link.number}, with {these(link.envs)}, is gone; reset replaces it"
            ) from link.why
        with self.announcing([link]):
            self._wire.orders[link.number, 2] = place
            lib.seer_bell_ring(self._wire.bells[link.number], number)
            self._tell(link, data)
        return number

    def follow(self, link: Link, name: str, *args: Any) -> None:
        """Send a message that was counted and rung for already; there is no reply."""
        assert self._wire is not None
        self._tell(link, _message(0, name, args, int(self._wire.orders[link.number, 2])))

    @contextlib.contextmanager
    def announcing(self, links: Sequence[Link]) -> Iterator[None]:
        """Messages are counted before they are sent; Ctrl-C may come in between."""
        try:
            yield
        except BaseException:
            self.owing.update(links)
            raise

    def make_good(self) -> None:
        """Let nobody wait for a message that was announced and perhaps not sent."""
        while self.owing:
            link = next(iter(self.owing))
            if not link.dead:
                with contextlib.suppress(WorkerDiedError):  # noticed by whoever waits for it
                    self.follow(link, "nothing")
            self.owing.discard(link)

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
            error = self.lost(link)
            raise error from error.__cause__
        except TimeoutError:
            raise self.late([link]) from None

    def reply(self, link: Link, number: int, until: float | None = None) -> Any:
        """The answer to what was asked under this number.

        Raises:
            EnvFailure: whatever was raised in the worker.
            WorkerDiedError: it ended instead.
            StepTimeoutError: it is not there by `until` (of `time.monotonic`).
        """
        while number not in link.kept:
            try:
                link.listen(until)
            except Gone:
                lost = self.lost(link)
                if number in link.kept:  # it came with the last words
                    break
                raise lost from lost.__cause__
            except TimeoutError:
                raise self.late([link]) from None
        kind, body = link.kept.pop(number)
        if kind == "side":
            return body
        value = loads(body)
        if kind == "ok":
            return value
        env, packed = value
        error = unpack_error(packed)
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

    def replace(self, link: Link, before: Sequence[tuple[Any, ...]]) -> None:
        """A new worker with new environments in the place of one that is gone.

        Args:
            link: its process is killed if it still runs.
            before: of each environment the seed for its first reset, how many episodes there
                were before, less one, and the options of the last reset.

        Raises:
            EnvFailure: whatever was raised in the worker.
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
            self._join(link, before)
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
        if self.foreign:
            return failures
        first, self.closed = not self.closed, True
        try:
            if first:
                self._part(time.monotonic() + timeout, failures)
        finally:  # also of who presses Ctrl-C
            for link in self.links:
                if hasattr(link, "child"):
                    link.child.kill()
            for link in self.links:
                self._end(link)
            if self._wire is not None:
                self._wire.memory.close_fd()
        return failures

    def _part(self, until: float, failures: list[EnvFailure]) -> None:
        """Ask every worker to end, and wait for those that do."""
        asked = []
        for link in self.links:
            if not link.dead:
                with contextlib.suppress(Exception):  # whoever doesn't hear is killed
                    if self._wire is None:
                        self._tell(link, dumps(None))
                    else:
                        asked.append((link, self.ask(link, "close")))
        for link, number in asked:
            try:
                for env, packed in self.reply(link, number, until):
                    failures.append(EnvFailure(env, unpack_error(packed)))
            except EnvFailure as failure:
                failures.append(failure)
            except Exception:  # whoever doesn't answer is killed
                pass
        for link in self.links:
            if not link.dead:
                link.child.wait(max(0.1, until - time.monotonic()))


def _message(number: int, name: str, args: Sequence[Any], place: int) -> bytes:
    return pickle.dumps((number, name, dumps(tuple(args)), place))
