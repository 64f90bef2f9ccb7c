"""What a worker process does: make its environments, then step them when its bell rings.

Orders concern all its environments at once, commands a single one, messages everything else.
Whatever it answers, it first publishes the word that the caller waits for and then writes to the
channel, so that the caller is reading by then and neither waits for the other.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._native import ffi, lib
from ..errors import ConfigError, NativeError, ResultError
from . import side as sides
from .channel import Channel, Gone
from .contract import NOBODY, EnvFailure, Side
from .describe import describe
from .factory import construct, make_cell
from .host import Host
from .remote import dumps, loads, pack_error
from .surroundings import limit_threads, register, settle, trim
from .wire import BUSY, FAILED, Wire

__all__ = ["main"]

_REST_NS = 500_000_000
"""How long to sleep before a Python signal handler of the environment gets its turn, ns."""


def main(
    channel_fd: int, caller_fd: int, factories: Sequence[Callable[[], Any]] | None = None
) -> None:
    """Be a worker until the caller says close, or is gone. Does not return.

    Args:
        channel_fd: a stream socket to the caller.
        caller_fd: readable when the caller has ended; -1: its end of the channel tells.
        factories: of its environments, where they needn't be sent; the surroundings are then
            the caller's too.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # so that what it starts can be ended with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller
    worker = _Worker(Channel(socket.socket(fileno=channel_fd)), caller_fd, factories)
    code = 0
    try:
        worker.run()
    except Gone:
        pass
    except BaseException as error:
        worker.say_last(error)
        code = 1
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        elif error.code is None or isinstance(error.code, int):
            code = error.code or 0
    _leave(code)


def _leave(code: int) -> None:
    """End without waiting for threads or processes that an environment left behind."""
    module = sys.modules.get("multiprocessing")
    if module is not None:
        for process in module.active_children():
            if getattr(process, "_parent_pid", None) == os.getpid():
                process.kill()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or its reader is
            stream.flush()
    os._exit(code & 0xFF)


def _telling(step: Callable[[_Worker], bool]) -> Callable[[_Worker], bool]:
    """A step of the set-up; the caller is told what goes wrong in it, and it gives False."""

    @functools.wraps(step)
    def attempt(self: _Worker) -> bool:
        try:
            return step(self)
        except (Gone, SystemExit):
            raise
        except BaseException as error:
            self._abandon()
            self._reply_error(0, error)
            return False

    return attempt


class _Worker:
    def __init__(
        self, channel: Channel, caller: int, factories: Sequence[Callable[[], Any]] | None
    ) -> None:  # fmt: skip
        self._channel, self._caller, self._factories = channel, caller, factories
        self._messages = self._seen = self._obeyed = 0
        self._begin: dict[int, tuple[int, Any, Any]] = {}  # resets to come
        self._spoilt: BaseException | None = None  # what came with them can't be read
        self._open = True

    def run(self) -> None:
        if not (self._make() and self._connect()):
            return
        bell, order, spin = self._bell, self._order, self._spin
        wait, seen = lib.seer_bell_wait, self._seen
        while self._open:
            value = wait(bell, seen, spin, _REST_NS)
            if value == seen:
                continue
            seen = value
            self._hear()
            # The bell may have been rung since for something else.
            if self._obeyed != (number := int(order[0])) <= value and self._open:
                self._obeyed = number
                self._obey(number)
            if number != value:
                self._work_off()

    # ---- set-up

    @_telling
    def _make(self) -> bool:
        """Make the environments and say what they are."""
        set_up = loads(self._channel.recv())
        error = lib.seer_watch(self._caller, self._channel.fileno())
        if error:
            raise NativeError(
                "the thread that ends a worker with its caller can't be started: "
                f"{os.strerror(error)}"
            )
        if self._factories is None:
            settle(set_up["around"])
        np.random.seed()  # noqa: NPY002 - forks of one process must not draw the same
        if set_up["cpu"] is not None:
            with contextlib.suppress(OSError, AttributeError):
                os.sched_setaffinity(0, {set_up["cpu"]})
        limit_threads(set_up["threads"], set_up["threads_before"])
        if self._factories is None:
            specs, self._factories = _unpacked(set_up["factories"])
            register(specs)
        lo = set_up["lo"]
        self._envs = construct(self._factories, lo)
        self._factories = None
        told = []
        for k, env in enumerate(self._envs):
            try:
                told.append(describe(env, f"environment {lo + k}"))
            except Exception as error:
                raise EnvFailure(lo + k, error) from error
            if told[k].spaces == told[0].spaces:
                told[k].spaces = told[0].spaces  # the same objects are sent once
        self._reply(0, told)
        return True

    def _abandon(self) -> None:
        """Close what was made."""
        for env in getattr(self, "_envs", ()):
            with contextlib.suppress(Exception):  # another error is what matters
                env.close()

    @_telling
    def _connect(self) -> bool:
        """Join the shared memory."""
        told = loads(self._channel.recv())
        if told is None:  # something else has failed
            self._abandon()
            return False
        (fd,) = self._channel.take_fds()
        self.host = host = told["host"]
        self.wire = wire = Wire(told["spec"], told["ranges"], told["frames"], fd)
        self.lo, self.hi = wire.ranges[host]
        cells = [make_cell(env, wire.spec, self.lo + k) for k, env in enumerate(self._envs)]
        for cell, (seed, episode, options) in zip(cells, told["before"] or (), strict=False):
            _seed_first(cell, seed)
            cell.episode, cell.last_options = episode, options
        self._host = Host(wire.spec, self.lo, cells)
        self._frames = [wire.frame(k) for k in range(told["frames"])]
        self._bell, self._order = wire.bells[host - 1], wire.orders[host - 1]
        self._spin = ffi.new("seer_spin *", {"most_ns": told["spin_ns"]})
        self._one_by_one: bool = told["one_by_one"]
        self._async_frame = self._frames[-1]
        # What was asked of a worker in whose place this one is was not asked of this one.
        self._messages = int(self._order[2])
        self._obeyed = int(self._order[0])
        self._seen = int(lib.seer_bell_value(self._bell))
        trim()
        self._reply(0, None)
        return True

    # ---- orders and commands

    def _obey(self, number: int) -> None:
        """Step every environment into the frame that the order names."""
        frame = self._frames[int(self._order[1])]
        try:
            self._check_spoilt()
            if self._one_by_one:
                side = Side()
                for env in range(self.lo, self.hi):
                    self.wire.say(self.host, None, BUSY, env)
                    side.update(self._host.step(frame, self.wire.actions, (env,)))
            else:
                side = self._host.step(frame, self.wire.actions)
            self._answer(None, number, sides.dumps(side) if side else b"")
        except (Gone, SystemExit):
            raise
        except BaseException as error:
            self._answer_error(None, number, error)
        if self.wire.actions.side:
            self.wire.actions.side.clear()

    def _work_off(self) -> None:
        """Step or reset those environments that have a command, the oldest first."""
        wire, lo = self.wire, self.lo
        commands, results = wire.command_at[lo], wire.base + int(wire.result_where[lo])
        while self._open:
            at = lib.seer_command_oldest(commands, results, wire.stride, self.hi - lo)
            if at < 0:
                return
            if self._hear():  # what the command needs was sent before it
                continue
            env = lo + at
            number = int(wire.commands[env])
            try:
                side = self._do(env, number)
                self._answer(env, number, sides.dumps(side) if side else b"")
            except (Gone, SystemExit):
                raise
            except BaseException as error:
                self._answer_error(env, number, error)
            wire.actions.side.pop(env, None)

    def _do(self, env: int, number: int) -> Side:
        frame = self._async_frame
        self._check_spoilt()
        if env in self._begin and self._begin[env][0] == number:
            _, seed, options = self._begin.pop(env)
            return self._host.begin(frame, env, seed, options)
        return self._host.step(frame, self.wire.actions, (env,))

    def _answer(self, env: int | None, number: int, data: bytes) -> None:
        fits = self.wire.put(self.host, env, data)
        self.wire.publish(self.host, env, number, urgent=not fits)
        if not fits:
            self._send(number, "side", data)

    def _answer_error(self, env: int | None, number: int, error: BaseException) -> None:
        self.wire.say(self.host, env, FAILED)
        self.wire.publish(self.host, env, number, urgent=True)
        self._reply_error(number, error, env)

    def _check_spoilt(self) -> None:
        error, self._spoilt = self._spoilt, None
        if error is not None:
            raise error

    # ---- messages

    def _hear(self) -> bool:
        """Do what messages say; whether there were any."""
        sent = int(self._order[2])
        if sent <= self._messages:
            return False
        while self._messages < sent and self._open:
            number, name, body, self._messages = pickle.loads(self._channel.recv())
            try:
                # Apart: what the user sends may be impossible to load.
                getattr(self, f"_on_{name}")(number, *loads(body))
            except (Gone, SystemExit):
                raise
            except BaseException as error:
                if name in ("begin", "beside"):  # told by the answer to what it belongs to
                    self._spoilt = error
                else:
                    self._reply_error(number, error)
        return True

    def _on_reset(
        self, number: int, frame: int, chosen: Any, seeds: list[Any], options: list[Any]
    ) -> None:  # fmt: skip
        before = [None] * self.lo
        side = self._host.reset(
            self._frames[frame], chosen, [*before, *seeds], [*before, *options]
        )  # fmt: skip
        self._send(number, "side", sides.dumps(side))

    def _on_renew(self, number: int, frame: int, envs: Sequence[int]) -> None:
        """First episodes in the place of those that another worker's end cut off."""
        side = Side()
        for env in envs:
            side.update(self._host.begin_again(self._frames[frame], env))
        self._send(number, "side", sides.dumps(side))

    def _on_nothing(self, number: int) -> None:
        """In the place of a message that was announced and perhaps not sent."""

    def _on_begin(self, number: int, resets: dict[int, tuple[int, Any, Any]]) -> None:
        self._begin.update(resets)

    def _on_beside(self, number: int, actions: dict[int, Any]) -> None:
        self.wire.actions.side.update(actions)

    def _on_call(
        self, number: int, name: str, args: Any, kwargs: Any, envs: Sequence[int]
    ) -> None:  # fmt: skip
        results = self._each(envs, lambda env: self._host.call(env, name, args, kwargs))
        try:
            self._reply(number, results)
        except Gone:
            raise
        except Exception as error:
            raise ResultError(
                f"{name!r} of environments {list(envs)} can't be sent from the worker: {error}"
            ) from error

    def _on_set(self, number: int, name: str, values: dict[int, Any]) -> None:
        self._each(values, lambda env: self._host.set_attr(env, name, values[env]))
        self._reply(number, None)

    def _on_render(self, number: int, envs: Sequence[int]) -> None:
        self._reply(number, self._each(envs, self._host.render))

    def _on_close(self, number: int) -> None:
        self._open = False
        failures = self._host.close()
        self._reply(number, [(f.env, pack_error(f.error)) for f in failures])

    def _each(self, envs: Any, act: Callable[[int], Any]) -> list[Any]:
        out = []
        for env in envs:
            try:
                out.append(act(env))
            except Exception as error:
                raise EnvFailure(env, error) from error
        return out

    def _reply(self, number: int, value: Any) -> None:
        self._send(number, "ok", dumps(value))

    def _reply_error(self, number: int, error: BaseException, env: int | None = None) -> None:
        if isinstance(error, EnvFailure):
            env, error = error.env, error.error
        self._send(number, "error", dumps((NOBODY if env is None else env, pack_error(error))))

    def _send(self, number: int, kind: str, body: bytes, until: float | None = None) -> None:
        self._channel.send(pickle.dumps((number, kind, body)), until)

    def say_last(self, error: BaseException) -> None:
        """Tell the caller why the process ends; nobody asked for that."""
        with contextlib.suppress(Exception):  # it will be told of the end in any case
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self._send(0, "end", text.encode(), time.monotonic() + 1.0)


def _unpacked(data: bytes) -> Any:
    try:
        return loads(data)
    except ImportError as error:
        raise ConfigError(
            f"the factories can't be loaded in a worker: {error}; what they are made of must be "
            "importable there, by the caller's sys.path, or be defined in __main__"
        ) from error


def _seed_first(cell: Any, seed: int | None) -> None:
    """Let an environment's next reset, if it names no seed, use this one."""
    reset = cell.reset

    def seeded(given: int | None, options: Any) -> Any:
        del cell.reset
        return reset(seed if given is None else given, options)

    cell.reset = seeded
