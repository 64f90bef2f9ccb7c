"""A process that forks workers: started once, single-threaded, with their imports done.

A worker is a fork of it, and so starts in milliseconds and shares its memory. It is not
multiprocessing's server: that one imports the caller's script anew, and its set-up belongs to
the user. It ends with its caller.

The caller sends the number of its request and the worker's descriptors; the server answers with
what it did. Every record is (kind, process id, status, number of the request or 0): an answer that
nobody waited for, since Ctrl-C came first, is not taken for the next one's.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable

__all__ = ["EXITED", "RECORD", "REQUEST", "STARTED", "main", "reap"]

REQUEST, RECORD = struct.Struct("<q"), struct.Struct("<qqqq")
STARTED, EXITED = 1, 2
MAX_FDS = 8


def main(control_fd: int, caller_fd: int) -> None:
    """Serve until the caller is gone.

    Args:
        control_fd: a stream socket to the caller.
        caller_fd: readable when the caller has ended, or -1.
    """
    from . import worker
    from .surroundings import trim

    for name in ("gymnasium", "pettingzoo"):
        with contextlib.suppress(Exception):  # who needs it will be told why
            __import__(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trim()
    gc.freeze()  # a collection in a worker would unshare the pages of all that was imported
    with socket.socket(fileno=control_fd) as control:
        _Server(control, caller_fd, worker.main).serve()
    os._exit(0)  # nothing of the caller's may run here at exit


class _Server:
    def __init__(
        self, control: socket.socket, caller_fd: int, body: Callable[[int, int], None]
    ) -> None:
        self._control, self._caller, self._body = control, caller_fd, body
        self._children: set[int] = set()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_r, select.POLLIN)
        if self._caller >= 0:
            poll.register(self._caller, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wake_r in ready:
                self._bury()
            if self._caller in ready or (
                self._control.fileno() in ready and not self._start_one()
            ):  # fmt: skip
                break
        # The workers have watchdogs of their own, but not while they are stopped.
        for pid in self._children:
            _kill_group(pid)

    def _start_one(self) -> bool:
        """Fork a worker; False when the caller has gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._control, REQUEST.size, MAX_FDS)
        except OSError:
            return False
        if not data:
            return False
        (number,) = REQUEST.unpack(data)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # there is none, or nobody reads it
                stream.flush()
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(STARTED, -1, error.errno or 0, number)
            for fd in fds:
                os.close(fd)
            return True
        if pid == 0:
            self._become_worker(fds)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):  # the worker does the same: whoever comes first
            os.setpgid(pid, pid)
        self._children.add(pid)
        pidfd = open_pidfd(pid)
        self._tell(STARTED, pid, 0, number, pidfd)
        if pidfd >= 0:
            os.close(pidfd)
        return True

    def _become_worker(self, fds: list[int]) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (self._wake_r, self._wake_w, self._caller):
                if fd >= 0:
                    os.close(fd)
            self._control.close()
            channel_fd, caller_fd, *streams = fds
            for fd, target in zip(streams, (1, 2), strict=False):
                os.dup2(fd, target)  # where the caller's output goes now
                os.close(fd)
            if caller_fd == channel_fd:
                caller_fd = -1
            self._body(channel_fd, caller_fd)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        finally:
            os._exit(code)

    def _bury(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, 4096)
        for pid in list(self._children):
            code = reap(pid)
            if code is not None:
                self._children.discard(pid)
                self._tell(EXITED, pid, code)

    def _tell(self, kind: int, pid: int, status: int, number: int = 0, fd: int = -1) -> None:
        record = RECORD.pack(kind, pid, status, number)
        with contextlib.suppress(OSError):  # the caller has gone: noticed in the loop
            socket.send_fds(self._control, [record], [fd] if fd >= 0 else [])


def reap(pid: int) -> int | None:
    """The exit code of a child if it has ended, negative for a signal.

    Whatever it left running in its process group is killed first: while the child is not
    reaped, nobody else can have its number.
    """
    try:
        if hasattr(os, "waitid"):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            _kill_group(pid)
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has waited for it
        return -256
    return os.waitstatus_to_exitcode(status) if done else None


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when a process ends; -1 where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _nothing(*_: object) -> None:
    """A handler, so that the signal ends a wait."""
