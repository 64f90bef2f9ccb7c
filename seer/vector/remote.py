"""Sending objects and exceptions between processes, and never losing an exception.

Everything travels by cloudpickle, in both directions: what is defined in ``__main__`` or inside
a function is sent by value, and comes back as the very class it was.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import traceback
from typing import Any

import cloudpickle

from ..errors import SeerError

__all__ = ["RemoteError", "WorkerTraceback", "dumps", "loads", "pack_error", "unpack_error"]


class RemoteError(SeerError, RuntimeError):
    """Stands for an exception of a worker that could be sent in no other form.

    Attributes:
        type_name: the original's class, as module.name.
        env: index of the environment, where it is about one.
    """

    type_name: str | None = None
    env: int | None = None


class WorkerTraceback(Exception):  # noqa: N818 - it is shown as the cause of an error
    """The traceback of an exception in a worker, as text."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def dumps(value: Any) -> bytes:
    """Anything that cloudpickle can send."""
    data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data


loads = pickle.loads


def pack_error(error: BaseException) -> bytes:
    """An exception in a form that always arrives.

    Three ways are tried: whole; its class, arguments and those attributes that can be sent; its
    name and text. Each is tried out here, since many exceptions can be pickled but not unpickled.
    """
    return dumps({
        "whole": _tried(error),
        "parts": _parts(error),
        "type": f"{type(error).__module__}.{type(error).__qualname__}",
        "text": _text(error),
        "traceback": _traceback(error),
    })  # fmt: skip


def unpack_error(data: bytes) -> BaseException:
    """The exception of `pack_error`, its traceback's text as the cause."""
    packed = loads(data)
    error = _whole(packed["whole"], packed["type"])
    if error is None:
        error = _rebuilt(packed["parts"], packed["text"])
    if error is None:
        error = RemoteError(f"{packed['type']}: {packed['text']}", type_name=packed["type"])
    _become_known(error)
    # Not by assignment: an exception may allow no attribute to be set.
    cause: Any = vars(BaseException)["__cause__"]
    cause.__set__(error, WorkerTraceback(packed["traceback"]))
    return error


def _become_known(error: BaseException) -> None:
    """Let an exception be of the class that has its name here, not of a copy."""
    cls: Any = type(error)
    known: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        known = getattr(known, name, None)
    if known is not cls and isinstance(known, type) and issubclass(known, BaseException):
        with contextlib.suppress(Exception):  # their instances are laid out differently
            error.__class__ = known


def _tried(error: BaseException) -> bytes | None:
    """The exception pickled, if it comes back as it was."""
    try:
        data = dumps(error)
        back = loads(data)
    except Exception:  # whatever a foreign class does when pickled
        return None
    return data if type(back) is type(error) and _text(back) == _text(error) else None


def _whole(data: bytes | None, name: str) -> BaseException | None:
    if data is None:
        return None
    try:
        error = loads(data)
    except Exception:  # its module is not importable here
        return None
    return error if isinstance(error, BaseException) else None


def _parts(error: BaseException) -> bytes | None:
    """Class, arguments and attributes, without those that can't be sent."""
    args = [value if _can_be_sent(value) else repr(value) for value in error.args]
    state = {key: value for key, value in vars(error).items() if _can_be_sent(value)}
    try:
        data = dumps((type(error), args, state))
    except Exception:  # the class itself can't be sent
        return None
    return data if _rebuilt(data, _text(error)) is not None else None


def _rebuilt(data: bytes | None, text: str) -> BaseException | None:
    """An exception from its parts, made without its constructor, if it says the same."""
    if data is None:
        return None
    try:
        cls, args, state = loads(data)
    except Exception:  # as above
        return None
    for given in (args, ()):
        try:
            error: BaseException = cls.__new__(cls, *given)
            error.args = tuple(args)
            vars(error).update(state)
        except Exception:  # a constructor with a mind of its own
            continue
        if _text(error) == text:
            return error
    return None


def _can_be_sent(value: Any) -> bool:
    try:
        loads(dumps(value))
    except Exception:  # whatever a foreign class does when pickled
        return False
    return True


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a broken __str__
        return f"{type(error).__name__} (its text can't be had)"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:  # a broken __str__ again
        return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
