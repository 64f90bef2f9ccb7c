"""What stands in the body of a model: parameters, columns, events, grids, totals and methods.

Users make these with the functions of :mod:`seer.model`; each remembers its name and its line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Any

import numpy as np

from .errors import ConfigError, ModelError
from .spec import Method

#: A number, the name of a parameter, or a function of the parameters.
Value = Any

_HOME = ("seer.declare", "seer.model")
EVENT_NAMES = ("time", "source", "sequence", "round", "target", "kind")
DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


class Declaration:
    """Something declared in the body of a model; knows its name and where it stands."""

    what = "declaration"

    def __init__(self) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in _HOME:
            frame = frame.f_back
        self.name = "?"
        self.file = frame.f_code.co_filename
        self.line = frame.f_lineno

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name == "?":
            self.name = name

    def text(self, name: str, value: Any, needed: bool = False) -> Any:
        """A name as it was given; ModelError for what can't be one."""
        if isinstance(value, str) or (value is None and not needed):
            return value
        raise ModelError(
            f"{self.what} ({self.file}:{self.line}): {name} must be a name, got {value!r}"
        )

    def flag(self, name: str, value: Any) -> bool:
        """True or False; ModelError for all else."""
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise ModelError(
            f"{self.what} ({self.file}:{self.line}): {name} must be True or False, got {value!r}"
        )

    def error(self, text: str) -> ModelError:
        """An error that names this declaration and its line."""
        return ModelError(f"{self.what} {self.name!r} ({self.file}:{self.line}): {text}")


class Param(Declaration):
    """A number that is chosen when a model is built; see :func:`param`."""

    what = "parameter"

    def __init__(self, default: Any, low: Any, high: Any, doc: str) -> None:
        super().__init__()
        self.default, self.low, self.high, self.doc = default, low, high, doc
        if isinstance(default, np.generic):
            self.default = default = default.item()
        if not isinstance(default, (bool, int, float)):
            raise ModelError(
                f"parameter ({self.file}:{self.line}): the default must be an int, a float or a "
                f"bool, got {default!r}"
            )
        self.type: type = type(default)
        for name, limit in (("low", low), ("high", high)):
            number = isinstance(limit, (int, float, np.number)) and not isinstance(limit, bool)
            if limit is not None and not number:
                raise ModelError(
                    f"parameter ({self.file}:{self.line}): {name} must be a number, got {limit!r}"
                )

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else instance.params[self.name]

    def convert(self, value: Any, owner: str) -> bool | int | float:
        """The value as this parameter's type, or ConfigError."""
        asked = value
        if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
            value = value.item()
        where = f"{owner}({self.name}={asked!r})"
        good = isinstance(value, bool) if self.type is bool else not isinstance(value, bool)
        if self.type is float:
            good = good and isinstance(value, (int, float))
        elif self.type is int:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            good = good and isinstance(value, int)
        if not good:
            raise ConfigError(f"{where}: expected {self.type.__name__}, got {type(asked).__name__}")
        try:
            result: bool | int | float = self.type(value)
        except OverflowError:
            raise ConfigError(f"{where}: must fit a float") from None
        if self.type is float and math.isnan(result):
            raise ConfigError(f"{where}: must be a number")
        if self.type is int and not -(2**63) <= result < 2**63:
            raise ConfigError(f"{where}: must fit 64 bits")
        if self.low is not None and result < self.low:
            raise ConfigError(f"{where}: must be at least {self.low}")
        if self.high is not None and result > self.high:
            raise ConfigError(f"{where}: must be at most {self.high}")
        return result


class ColumnDecl(Declaration):
    """One value or short vector per entity; see :func:`column`."""

    what = "column"

    def __init__(
        self, dtype: Any, shape: Value, published: bool, of: str | None, initial: Any,
        role: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shape, self.initial, self.role = shape, initial, role
        self.published = self.flag("published", published)
        self.of = self.text("of", of)
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            self.dtype = np.dtype("V1")
        if self.dtype.str.lstrip("<|=") not in DTYPES:
            raise ModelError(
                f"column ({self.file}:{self.line}): the dtype must be one of "
                f"{', '.join(DTYPES)}, got {dtype!r}"
            )


class EventDecl(Declaration):
    """A kind of event; see :func:`event`."""

    what = "event"

    def __init__(self, fields: Mapping[str, Any] | None, even_if_dead: bool) -> None:
        super().__init__()
        self.even_if_dead = self.flag("even_if_dead", even_if_dead)
        self.fields: tuple[tuple[str, np.dtype], ...] = ()
        where = f"event ({self.file}:{self.line})"
        if fields is not None and not isinstance(fields, Mapping):
            raise ModelError(
                f"{where}: the fields must be a dict of name to dtype, as in "
                f'seer.event({{"volume": "f8"}}), got {fields!r}'
            )
        for name, dtype in dict(fields or {}).items():
            named = isinstance(name, str) and name.isidentifier() and not iskeyword(name)
            if not named or name.startswith("_"):
                raise ModelError(f"{where}: {name!r} can't be the name of a field")
            if name in EVENT_NAMES:
                raise ModelError(f"{where}: {name!r} is a field that every event has already")
            try:
                dt = np.dtype(dtype)
            except TypeError:
                dt = np.dtype("V1")
            if dt.str.lstrip("<|=") not in DTYPES:
                raise ModelError(
                    f"{where}: field {name!r} must have one of the dtypes "
                    f"{', '.join(DTYPES)}, got {dtype!r}"
                )
            self.fields += ((name, dt),)
        self.bytes = sum(dt.itemsize for _, dt in self.fields)
        if self.bytes > 40:
            raise ModelError(f"{where}: the fields may fill 40 bytes, these fill {self.bytes}")


class GridDecl(Declaration):
    """Cells for finding neighbours; see :func:`grid`."""

    what = "grid"

    def __init__(self, column: str, cell: Value, low: Value, high: Value) -> None:
        super().__init__()
        self.column = self.text("column", column, needed=True)
        self.cell, self.low, self.high = cell, low, high


class TotalDecl(Declaration):
    """A reduction over a column; see :func:`total`."""

    what = "total"
    ops = ("sum", "mean", "min", "max", "argmin", "argmax")

    def __init__(self, op: str, column: str, item: int, alive_only: bool) -> None:
        super().__init__()
        if not isinstance(op, str) or op not in self.ops:
            raise ModelError(
                f"total ({self.file}:{self.line}): the operation must be one of "
                f"{', '.join(self.ops)}, got {op!r}"
            )
        self.op, self.item = op, item
        self.column = self.text("column", column, needed=True)
        self.alive_only = self.flag("alive_only", alive_only)


class MethodDecl(Declaration):
    """A method of a model that the engine calls; the raw function is :attr:`fn`."""

    parameters: tuple[str, ...] = ()

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        if isinstance(fn, (staticmethod, classmethod)):
            fn = fn.__func__
        code = getattr(fn, "__code__", None)
        if code is None:
            raise ModelError(
                f"{self.what} ({self.file}:{self.line}): decorates a function, got {fn!r}"
            )
        self.fn = fn
        self.name = fn.__name__
        self.file, self.line = code.co_filename, code.co_firstlineno

    @property
    def method(self) -> Method:
        """The function with its place."""
        return Method(self.fn, self.name, self.file, self.line)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


class SweepDecl(MethodDecl):
    """Uniform work over a group; see :func:`sweep` and :func:`reset`."""

    what = "sweep"
    parameters = ("ctx", "s", "i")

    def __init__(
        self, fn: Callable[..., Any], at: Value, over: str | None, include: str,
        on_step: bool, on_reset: bool,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        if not on_step:
            self.what = "reset"
        self.at, self.over, self.include = at, self.text("over", over), include
        self.on_step, self.on_reset = on_step, self.flag("on_reset", on_reset)
        if not isinstance(include, str) or include not in ("alive", "acted", "all"):
            raise self.error(f'include must be "alive", "acted" or "all", got {include!r}')


class OnDecl(MethodDecl):
    """The handler of a kind of event; see :func:`on`."""

    what = "handler"
    parameters = ("ctx", "s", "i", "e")

    def __init__(self, fn: Callable[..., Any], kind: str) -> None:
        super().__init__(fn)
        self.kind = kind
