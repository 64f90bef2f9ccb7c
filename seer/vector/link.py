"""A worker and what passes between it and the caller."""

from __future__ import annotations

import contextlib
import pickle
import signal
import time
from collections.abc import Sequence

from ..errors import WorkerDiedError
from .channel import Channel, Gone
from .child import Child
from .remote import WorkerTraceback

__all__ = ["Link", "these"]


class Link:
    """A worker and what passes between it and the caller.

    Attributes:
        number: of the worker, from 0; its host is one more.
        lo, hi: its environments.
        dead: it has ended, or is given up and will be killed; `why` is the error that said so.
        restarts: how often it was replaced.
        restarted: it was, in the call that is being made.
    """

    def __init__(self, number: int, lo: int, hi: int) -> None:
        self.number, self.host, self.lo, self.hi = number, number + 1, lo, hi
        self.child: Child
        self.channel: Channel
        self.dead = True
        self.why: Exception | None = None
        self.restarts, self.restarted = 0, False
        self.kept: dict[int, tuple[str, bytes]] = {}  # what came before it was asked for
        self._last_words = ""

    @property
    def envs(self) -> range:
        """The numbers of its environments."""
        return range(self.lo, self.hi)

    def alive(self) -> bool:
        """Whether the process runs."""
        return not self.dead and not self.child.ended()

    def begun(self, child: Child) -> None:
        """Another process takes its place."""
        self.child, self.channel = child, Channel(child.sock, self.alive)
        self.dead = False
        self.kept.clear()
        self._last_words = ""

    def listen(self, until: float | None) -> None:
        """Keep the next message for whoever asks for it.

        Raises:
            Gone: nobody is there.
            TimeoutError: none came in time.
        """
        number, kind, body = pickle.loads(self.channel.recv(until))
        if kind == "end":
            self._last_words = body.decode(errors="replace")
        else:
            self.kept[number] = (kind, body)

    def error(self) -> Exception:
        """Why it can't be used: it was given up, or has ended."""
        if self.why is not None and not self.child.ended():
            return self.why
        return self.died()

    def died(self) -> WorkerDiedError:
        """The error that says how it ended; its cause is the traceback of an exit, if any."""
        self.dead = True
        code = self.child.exit_code()
        with contextlib.suppress(Gone, TimeoutError):
            while True:
                self.listen(time.monotonic())
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
        if self._last_words:
            self.why.__cause__ = WorkerTraceback(self._last_words)
        return self.why


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
