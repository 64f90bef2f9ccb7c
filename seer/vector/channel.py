"""Messages and descriptors over a socket between the caller and one worker.

What both sides do at leisure (construction, resets, calls) goes this way; steps don't.
A message that was interrupted, by Ctrl-C say, is completed by the next call, so that the stream
stays in order.
"""

from __future__ import annotations

import array
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence

__all__ = ["Channel", "Gone"]

_HEAD = struct.Struct("<Q")
_CHUNK = 1 << 20
_SLICE = 0.02
"""How long to wait at most before looking after the other side, s."""


class Gone(Exception):  # noqa: N818 - says that there is nobody to talk to
    """The other side has closed its end."""


class Channel:
    """One end of a connected pair of stream sockets.

    Args:
        sock: belongs to the channel from now on.
        watch: called every 20 ms while waiting; says whether somebody is still there.
    """

    def __init__(self, sock: socket.socket, watch: Callable[[], bool] | None = None) -> None:
        self._sock, self._watch = sock, watch
        sock.setblocking(False)
        self._out = bytearray()
        self._in = bytearray()
        self._fds: list[int] = []

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def send(self, data: bytes, until: float | None = None, fds: Sequence[int] = ()) -> None:
        """Send a message.

        Args:
            data: its bytes.
            until: when to give up, by `time.monotonic`.
            fds: descriptors that go with it.

        Raises:
            Gone: nobody is there.
            TimeoutError: it took too long; the rest is sent before the next message.
        """
        self._flush(until)
        self._out += _HEAD.pack(len(data))
        if fds:
            self._attempt(select.POLLOUT, until, lambda: self._send_with(fds))
        self._out += data
        self._flush(until)

    def recv(self, until: float | None = None) -> bytes:
        """Wait for a message.

        Raises:
            Gone: nobody is there.
            TimeoutError: none came in time; what came of it is kept for the next call.
        """
        while True:
            data = self._whole()
            if data is not None:
                return data
            self._attempt(select.POLLIN, until, self._read)

    def take_fds(self) -> list[int]:
        """The descriptors that came with what was received; they are the taker's to close."""
        fds, self._fds = self._fds, []
        return fds

    def close(self) -> None:
        """Close this end. May be called twice."""
        self._sock.close()

    def _whole(self) -> bytes | None:
        if len(self._in) < _HEAD.size:
            return None
        end = _HEAD.size + _HEAD.unpack_from(self._in)[0]
        if len(self._in) < end:
            return None
        data = bytes(memoryview(self._in)[_HEAD.size : end])
        del self._in[:end]
        return data

    def _flush(self, until: float | None) -> None:
        while self._out:
            self._attempt(select.POLLOUT, until, self._write)

    def _write(self) -> None:
        with memoryview(self._out)[:_CHUNK] as part:
            count = self._sock.send(part)
        del self._out[:count]

    def _send_with(self, fds: Sequence[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        count = self._sock.sendmsg([bytes(self._out)], rights)
        del self._out[:count]

    def _read(self) -> None:
        room = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        data, extra, _, _ = self._sock.recvmsg(_CHUNK, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        for level, kind, rights in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(rights[: len(rights) - len(rights) % fds.itemsize])
                self._fds += fds
        if not data:
            raise Gone
        self._in += data

    def _attempt(self, event: int, until: float | None, act: Callable[[], None]) -> None:
        """Try until the socket lets us."""
        while True:
            try:
                act()
                return
            except BlockingIOError:
                pass
            except OSError as error:
                raise Gone from error
            self._wait(event, until)

    def _wait(self, event: int, until: float | None) -> None:
        poll = select.poll()
        try:
            poll.register(self._sock, event)
        except ValueError as error:  # closed by another thread
            raise Gone from error
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            span = left
            if self._watch is not None:
                span = _SLICE if left is None else min(_SLICE, left)
            if poll.poll(None if span is None else max(1, int(span * 1000))):
                return
            if self._watch is not None and not self._watch():
                if poll.poll(0):  # its last words
                    return
                raise Gone
