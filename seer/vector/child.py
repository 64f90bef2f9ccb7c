"""A worker process from the caller's side: whether it lives, how it ended, and its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref

from .forkserver import reap
from .surroundings import THREAD_VARIABLES

__all__ = ["UNKNOWN", "Child", "Spawned", "children", "python"]

UNKNOWN = -256
"""Exit code where somebody else has waited for the process."""

children: weakref.WeakSet[Child] = weakref.WeakSet()


class Child:
    """A worker process, from the caller's side.

    Attributes:
        pid: its number; also that of its process group.
        sock: the caller's end of the channel.
    """

    def __init__(self, pid: int, sock: socket.socket, pidfd: int) -> None:
        self.pid, self.sock, self._pidfd = pid, sock, pidfd
        self._code: int | None = None
        children.add(self)

    def ended(self) -> bool:
        """Whether the process has ended. Takes microseconds."""
        if self._code is not None:
            return True
        if self._pidfd < 0:
            return self._look() is not None
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def exit_code(self, timeout: float = 1.0) -> int | None:
        """Its exit code, negative for a signal; None: it runs, or the code can't be known."""
        until = time.monotonic() + timeout
        while self._look() is None and time.monotonic() < until:
            if self._pidfd >= 0 and not self.ended():
                poll = select.poll()
                poll.register(self._pidfd, select.POLLIN)
                poll.poll(max(0, int((until - time.monotonic()) * 1000)))
            else:
                time.sleep(0.001)
        return None if self._code == UNKNOWN else self._code

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; whether it has."""
        self.exit_code(timeout)
        return self._code is not None

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        if not self.ended():
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)

    def forget(self) -> None:
        """Give the descriptors back."""
        self.sock.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _look(self) -> int | None:
        if self._code is None:
            self._code = reap(self.pid)
        return self._code


class Spawned(Child):
    """A child of the caller, with an interpreter of its own."""

    def __init__(self, popen: subprocess.Popen[bytes], sock: socket.socket, pidfd: int) -> None:
        super().__init__(popen.pid, sock, pidfd)
        self._popen = popen

    def _look(self) -> int | None:
        if self._code is None:
            self._code = reap(self.pid)
            if self._code is not None:
                self._popen.returncode = self._code  # or it would be waited for again
        return self._code


def python(what: str, fds: list[int], threads: int = 1) -> subprocess.Popen[bytes]:
    """An interpreter like this one, which starts with ``from seer.vector.`` + `what`."""
    path = [os.getcwd() if entry == "" else entry for entry in sys.path if type(entry) is str]
    code = f"import sys; sys.path[:] = {path!r}; from seer.vector.{what}"
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    environ = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    return subprocess.Popen(
        [_executable(), *flags, "-c", code], pass_fds=fds, env=environ, stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C at a terminal is for the caller, from the beginning
    )  # fmt: skip


def _executable() -> str:
    """The interpreter to start; programs that embed Python set it with multiprocessing."""
    spawn = sys.modules.get("multiprocessing.spawn")
    chosen = spawn.get_executable() if spawn is not None else None
    return os.fsdecode(chosen or sys.executable)
