"""Starting worker processes, three ways, and ending them.

None of the ways imports the caller's script anew: what is defined there travels by value. So a
script needs no main guard.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Protocol

from ..errors import ConfigError, NativeError
from .child import Child, Spawned, children, python
from .forkclient import Client
from .forkserver import open_pidfd

__all__ = ["METHODS", "launch", "preload", "vectors"]

METHODS = ("forkserver", "spawn", "fork")


class _Closable(Protocol):
    def close(self) -> None: ...


vectors: weakref.WeakSet[_Closable] = weakref.WeakSet()
"""Those that have workers; closed at exit, before the server that forked them ends."""


def launch(method: str, body: Callable[[int, int], None]) -> Child:
    """Start a worker.

    Args:
        method: one of `METHODS`.
        body: what a forked worker does, given its channel's descriptor and one of the caller;
            the others do what `worker.main` does.

    Raises:
        ConfigError: there is no such method here.
    """
    if method not in METHODS:
        raise ConfigError(
            f"start_method={method!r}: expected one of {', '.join(map(repr, METHODS))}"
        )
    ours, theirs = socket.socketpair()
    caller = open_pidfd(os.getpid())
    try:
        if method == "fork":
            return _fork(body, ours, theirs, caller)
        if method == "spawn":
            return _spawn(ours, theirs, caller)
        return _served(ours, theirs, caller)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        if caller >= 0:
            os.close(caller)


def _fork(
    body: Callable[[int, int], None], ours: socket.socket, theirs: socket.socket, caller: int
) -> Child:
    for stream in (sys.stdout, sys.stderr):  # or what they hold would be written twice
        with contextlib.suppress(Exception):
            stream.flush()
    with warnings.catch_warnings():
        # Python warns of forking beside threads; who asks for this method was told.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ours.close()
            atexit._clear()  # what the caller wants done at its end is not ours to do
            _forget_handlers()
            sys.stdin = open(os.devnull)  # noqa: SIM115 - what is typed is for the caller
            body(theirs.detach(), caller)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        finally:
            os._exit(code)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return Child(pid, ours, open_pidfd(pid))


def _forget_handlers() -> None:
    """Signal handlers and the wake-up descriptor of the caller are not the worker's."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)


def _spawn(ours: socket.socket, theirs: socket.socket, caller: int) -> Child:
    fds = [theirs.fileno()] + ([caller] if caller >= 0 else [])
    popen = python(f"worker import main; main({theirs.fileno()}, {caller})", fds)
    return Spawned(popen, ours, open_pidfd(popen.pid))


# ---- the fork server ---------------------------------------------------------------------

_client: Client | None = None
_starting = threading.Lock()


def _served(ours: socket.socket, theirs: socket.socket, caller: int) -> Child:
    global _client
    with _starting:
        for attempt in range(2):
            if _client is None or not _client.usable():
                if _client is not None:
                    _client.stop()
                _client = Client()
            try:
                return _client.start(ours, theirs, caller)
            except (BrokenPipeError, NativeError):
                if attempt:
                    raise
                _client._gone = True
    raise AssertionError("unreachable")


def _at_exit() -> None:
    for vector in list(vectors):
        with contextlib.suppress(Exception):
            vector.close()
    if _client is not None and not _client._gone:
        _client.stop()


def _after_fork() -> None:
    """A fork of the caller holds none of its workers' ends."""
    global _client, _starting
    _starting = threading.Lock()
    if _client is not None:
        _client.forget()
        _client = None
    for child in list(children):
        with contextlib.suppress(OSError):
            child.forget()
    children.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)


def preload() -> None:
    """Start the fork server, so that the first vector needn't wait for it."""
    global _client
    with _starting:
        if _client is None or not _client.usable():
            _client = Client()
