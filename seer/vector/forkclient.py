"""The caller's side of the process that forks workers."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading

from ..errors import NativeError
from .child import UNKNOWN, Child, python
from .forkserver import EXITED, MAX_FDS, RECORD, REQUEST, open_pidfd

__all__ = ["Client"]


class _Served(Child):
    """A child of the fork server, which tells its exit code."""

    def __init__(self, pid: int, sock: socket.socket, pidfd: int, server: Client) -> None:
        super().__init__(pid, sock, pidfd)
        self._server = server

    def _look(self) -> int | None:
        if self._code is None:
            self._code = self._server.exit_code(self.pid)
        return self._code


class Client:
    """The caller's side of the fork server."""

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        caller = open_pidfd(os.getpid())
        fds = [theirs.fileno()] + ([caller] if caller >= 0 else [])
        try:
            self._popen = python(f"forkserver import main; main({theirs.fileno()}, {caller})", fds)
        except BaseException:
            self._sock.close()
            raise
        finally:
            theirs.close()
            if caller >= 0:
                os.close(caller)
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._number = 0  # of the last request
        self._gone = False

    def start(self, ours: socket.socket, theirs: socket.socket, caller: int) -> Child:
        """Fork a worker, and give it its end of a channel and a descriptor of the caller."""
        fds = [theirs.fileno(), caller if caller >= 0 else theirs.fileno()]
        fds += [fd for fd in (1, 2) if _is_open(fd)]
        with self._lock:
            self._number += 1
            socket.send_fds(self._sock, [REQUEST.pack(self._number)], fds)
            while True:
                kind, pid, status, number, pidfd = self._record()
                if kind == EXITED:
                    self._codes[pid] = status
                elif number == self._number:
                    break
                elif pidfd >= 0:  # of a start that was interrupted; its channel is closed
                    os.close(pidfd)
            if pid < 0:
                raise OSError(status, f"a worker can't be forked: {os.strerror(status)}")
        return _Served(pid, ours, pidfd, self)

    def exit_code(self, pid: int) -> int | None:
        """How a worker ended; None: it runs, or was asked for before."""
        with self._lock:
            while not self._gone and select.select([self._sock], [], [], 0)[0]:
                try:
                    kind, other, status, _, pidfd = self._record()
                except NativeError:
                    break
                if kind == EXITED:
                    self._codes[other] = status
                elif pidfd >= 0:  # as above
                    os.close(pidfd)
            code = self._codes.pop(pid, None)
            if code is None and self._gone and not _runs(pid):
                code = UNKNOWN
            return code

    def usable(self) -> bool:
        """Whether it can fork more."""
        return not self._gone and self._popen.poll() is None

    def stop(self) -> None:
        """End the server, and wait for it."""
        self._sock.close()
        self._gone = True
        try:
            self._popen.wait(2.0)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def forget(self) -> None:
        """In a fork of the caller: the server is not ours."""
        self._sock.close()
        self._gone = True
        self._popen.returncode = 0  # or it would be waited for

    def _record(self) -> tuple[int, int, int, int, int]:
        data, fds = b"", list[int]()
        while len(data) < RECORD.size:
            try:
                part, more, _, _ = socket.recv_fds(self._sock, RECORD.size - len(data), MAX_FDS)
            except ConnectionError:
                part, more = b"", []
            data, fds = data + part, fds + list(more)
            if not part:
                self._gone = True
                raise NativeError(
                    "the process that forks workers has ended "
                    f"(exit code {self._popen.poll()}); what it printed tells why"
                )
        kind, pid, status, number = RECORD.unpack(data)
        return kind, pid, status, number, fds[0] if fds else -1


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
