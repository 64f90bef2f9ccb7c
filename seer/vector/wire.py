"""The memory that a caller and its workers share, and who writes what in it.

A memfd has no name, so nothing is left behind whatever happens, and its pages are reserved when
it is made, so that a lack of memory is an error and not a crash later. In it, in this order:

- for every worker a bell and an order (caller writes),
- the collector's bell and the counter of tickets (workers write),
- a command for every environment (caller writes),
- for every host (the caller's own share is number 0) an answer and the environments' answers
  (that host writes),
- for every environment room for what arrays can't carry (its host writes),
- the actions (caller writes) and the frames (hosts write their rows).

What different processes write is 128 bytes apart, except in frames, whose rows lie side by side
because that is what the caller is handed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._native import ffi, lib
from ..errors import OutOfMemoryError
from ..hardware import available_memory
from ..types import Array
from .contract import Actions, VecSpec
from .frames import Frame, FrameLayout
from .leaves import OBJECT

__all__ = ["BUSY", "FAILED", "FINE", "SPILLED", "Memory", "Wire"]

FINE, SPILLED, FAILED, BUSY = 0, 1, 2, 3
"""How an answer reads: its bytes are in place; they come by the channel; an error does; the
environment of this number, in place of a length, is being stepped."""

APART: int = lib.SEER_WIRE_APART
_PAGE = 4096
_STRIDE = 32  # of an answer: four words of 8 bytes
_TICKET, _STATUS, _LENGTH = 1, 2, 3
_ROOM = 4096
"""Bytes beside the arrays, for each environment; more goes by the channel."""


class Memory:
    """A block of shared memory, zero at first.

    Args:
        nbytes: its size; rounded up to pages.
        fd: of memory that another process made; closed here. None: make it.

    Raises:
        OutOfMemoryError: there is not that much.
    """

    def __init__(self, nbytes: int, fd: int | None = None) -> None:
        self.nbytes = -(-max(nbytes, 1) // _PAGE) * _PAGE
        self.fd = _reserve(self.nbytes) if fd is None else fd
        try:
            self.map = mmap.mmap(self.fd, self.nbytes)
        except OSError as error:
            raise _no_memory(self.nbytes, str(error.strerror)) from error
        finally:
            if fd is not None:
                self.close_fd()
        self.base = ffi.cast("char *", ffi.from_buffer(self.map))

    def array(self, start: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array in it, from byte `start` on."""
        array: Array = np.ndarray(shape, dtype, self.map, start)
        return array

    def close_fd(self) -> None:
        """Give the descriptor back; what is mapped stays."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            self.close_fd()


def _reserve(nbytes: int) -> int:
    available = available_memory()
    if available is not None and nbytes > available:
        # Reserving it all the same would not fail: it would get processes killed.
        raise _no_memory(nbytes, f"{available / 2**20:.1f} MiB are available")
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("seer", os.MFD_CLOEXEC)
    else:
        fd, path = tempfile.mkstemp(prefix="seer-")
        os.unlink(path)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, nbytes)
        else:
            os.ftruncate(fd, nbytes)
    except OSError as error:
        os.close(fd)
        raise _no_memory(nbytes, str(error.strerror)) from error
    return fd


def _no_memory(nbytes: int, why: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"{nbytes / 2**20:.1f} MiB of shared memory for the environments' results can't be had: "
        f"{why}; use fewer environments or smaller observations"
    )


class Wire:
    """Where everything stands in the shared memory; equal in every process.

    Args:
        spec: of the vector.
        ranges: [lo, hi) of every host; the first is the caller's own share.
        frames: how many.
        fd: of the memory, in a worker; None: make it.

    Attributes:
        bells: addresses, one for each worker.
        orders: (workers, 16) uint64: number, frame and how many messages were sent.
        commands: (N,) uint64.
        answer_where: (hosts,) uint64, byte offsets of answers to orders: the words done, ticket,
            status and length.
        result_where: (N,) uint64, of the answers to each environment's commands.
        host_of: (N,) which host an environment lives in.
        actions: in the shared memory, but for those of dtype object.
        frames: the roots of frames, (nbytes,) uint8.
    """

    def __init__(
        self, spec: VecSpec, ranges: Sequence[tuple[int, int]], frames: int, fd: int | None = None
    ) -> None:
        self.spec, self.ranges = spec, list(ranges)
        self.layout = FrameLayout(spec)
        self._at = 0
        self.stride: int = _STRIDE
        workers, n = len(ranges) - 1, spec.num_envs
        bells, orders = self._take(workers * APART), self._take(workers * APART)
        collector, tickets = self._take(APART), self._take(APART)
        commands = self._take(n * 8)
        answers = [self._take((1 + hi - lo) * _STRIDE) for lo, hi in ranges]
        rooms = [self._take((hi - lo) * _ROOM) for lo, hi in ranges]
        actions = [
            [
                (self._take(n * len(g) * _size(leaf)), (n, len(g), *leaf.shape), leaf.dtype)
                for leaf in g.action.leaves
            ]
            for g in spec.groups
        ]  # fmt: skip
        roots = [self._take(self.layout.nbytes, _PAGE) for _ in range(frames)]
        self.memory = memory = Memory(self._at, fd)

        self.base = memory.base
        self._words = memory.array(0, (memory.nbytes // 8,), np.uint64)
        self.bells = [self.base + bells + k * APART for k in range(workers)]
        self.orders = memory.array(orders, (workers, APART // 8), np.uint64)
        self.collector, self.tickets = self.base + collector, self.base + tickets
        self.commands = memory.array(commands, (n,), np.uint64)
        self.command_at = [self.base + commands + env * 8 for env in range(n)]
        self._rooms = rooms
        self.answer_where = np.array(answers, np.uint64)
        self.result_where = np.array(
            [
                at + (1 + k) * _STRIDE
                for at, (lo, hi) in zip(answers, ranges, strict=True)
                for k in range(hi - lo)
            ],
            np.uint64,
        )
        self._answers_at = self.answer_where.astype(np.intp) // 8
        told = self._answers_at[1:]
        self._told_at = np.concatenate([told + _STATUS, told + _LENGTH])
        self.host_of = np.repeat(np.arange(len(ranges)), [hi - lo for lo, hi in ranges])
        self.actions = Actions(
            spec,
            [
                [
                    None if dtype == OBJECT else memory.array(at, shape, dtype)
                    for at, shape, dtype in leaves
                ]
                for leaves in actions
            ],
        )
        self.roots = [memory_root(memory, at, self.layout.nbytes) for at in roots]

    def _take(self, nbytes: int, align: int = APART) -> int:
        start = -(-self._at // align) * align
        self._at = start + nbytes
        return start

    def frame(self, k: int) -> Frame:
        """Frame number k."""
        return Frame(self.layout, self.roots[k])

    # ---- answers; `env` None: to an order, else to that environment's command

    def put(self, host: int, env: int | None, data: bytes) -> bool:
        """Leave bytes with an answer.

        Returns:
            False: they don't fit, and must follow by the channel.
        """
        start, room = self._room(host, env)
        fits = len(data) <= room
        if data and fits:
            self.memory.map[start : start + len(data)] = data
        self.say(host, env, FINE if fits else SPILLED, len(data))
        return fits

    def say(self, host: int, env: int | None, status: int, length: int = 0) -> None:
        """Write how an answer reads, before it is published."""
        at = self._where(host, env) // 8
        self._words[at + _STATUS], self._words[at + _LENGTH] = status, length

    def read(self, where: int) -> tuple[int, int]:
        """Status and length of the answer at a byte offset."""
        at = int(where) // 8
        return int(self._words[at + _STATUS]), int(self._words[at + _LENGTH])

    def told(self) -> list[tuple[int, int]] | None:
        """Status and length of every worker's answer to an order; None: all 0."""
        words = self._words[self._told_at]
        if not words.any():
            return None
        half = len(words) // 2
        return list(zip(words[:half].tolist(), words[half:].tolist(), strict=True))

    def told_of(self, envs: Array) -> list[tuple[int, int]]:
        """Status and length of the answers of environments, (n,) int64."""
        at = self.result_where[envs].astype(np.intp) // 8
        return list(
            zip(self._words[at + _STATUS].tolist(), self._words[at + _LENGTH].tolist(), strict=True)
        )

    def tickets_of(self, envs: Array) -> Array:
        """(n,) uint64, the order in which the results of environments came."""
        tickets: Array = self._words[self.result_where[envs] // 8 + _TICKET]
        return tickets

    def get(self, host: int, env: int | None, length: int) -> Any:
        """The bytes that were left with an answer; to be read before the next one."""
        start, _ = self._room(host, env)
        return memoryview(self.memory.map)[start : start + length]

    def publish(self, host: int, env: int | None, number: int, urgent: bool = False) -> None:
        """Say that an order, or an environment's command, is done."""
        lib.seer_result_publish(
            self.base + self._where(host, env), number, self.tickets, self.collector, urgent
        )  # fmt: skip

    def forget(self, env: int) -> None:
        """Take an environment's command back; nobody may be working on it."""
        self._words[int(self.result_where[env]) // 8] = self.commands[env]

    def _where(self, host: int, env: int | None) -> int:
        return int(self.answer_where[host] if env is None else self.result_where[env])

    def _room(self, host: int, env: int | None) -> tuple[int, int]:
        lo, hi = self.ranges[host]
        if env is None:
            return self._rooms[host], (hi - lo) * _ROOM
        return self._rooms[host] + (env - lo) * _ROOM, _ROOM


def memory_root(memory: Memory, start: int, nbytes: int) -> Array:
    """The root of a frame: made from the map itself, so that views of it keep it alive."""
    return np.frombuffer(memory.map, np.uint8, nbytes, start)


def _size(leaf: Any) -> int:
    return 0 if leaf.dtype == OBJECT else leaf.dtype.itemsize * int(np.prod(leaf.shape))
