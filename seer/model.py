"""Declaring a model: parameters, state columns, event kinds, sweeps and handlers.

A model is a class. Its body names what an entity remembers (columns), what may happen to it
(events) and what is done when (sweeps and handlers); the checks of :mod:`seer.analysis` run
when the class is made, so a mistake is an error at import, with the line it stands on. An
instance binds the parameters; its :attr:`EventModel.spec` is the resolved description that the
engine and the compiler read.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .errors import ConfigError, ModelError
from .spec import (
    BUILT_IN,
    MAX_COLUMNS,
    Column,
    Grid,
    Group,
    Kind,
    Method,
    ModelSpec,
    Sweep,
    Total,
    resolve,
)

__all__ = [
    "Column",
    "EventModel",
    "Grid",
    "Group",
    "Kind",
    "Method",
    "ModelSpec",
    "Sweep",
    "Total",
    "action",
    "column",
    "event",
    "grid",
    "observation",
    "on",
    "param",
    "reset",
    "reward",
    "sweep",
    "terminated",
    "total",
]

#: A number, the name of a parameter, or a function of the parameters.
Value = Any

_SETTINGS = {
    "groups", "agents", "step", "lookahead", "tick", "lane_capacity", "world_capacity",
    "step_capacity", "max_rounds", "spec", "params", "p", "observation_space", "action_space",
}  # fmt: skip
_STATE_NAMES = {"seen", "p", "total", "alive", "acted", "draws"}
_EVENT_NAMES = {"time", "source", "sequence", "round", "target", "kind"}
_DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


class Declaration:
    """Something declared in the body of a model; knows its name and where it stands."""

    what = "declaration"

    def __init__(self) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
            frame = frame.f_back
        self.name = "?"
        self.file = frame.f_code.co_filename
        self.line = frame.f_lineno

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name == "?":
            self.name = name

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
            raise ConfigError(
                f"{where}: expected {self.type.__name__}, got {type(asked).__name__}"
            )
        result: bool | int | float = self.type(value)
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
        self.shape, self.published, self.of, self.initial, self.role = (
            shape, bool(published), of, initial, role,
        )  # fmt: skip
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            self.dtype = np.dtype("V1")
        if self.dtype.str.lstrip("<|=") not in _DTYPES:
            raise ModelError(
                f"column ({self.file}:{self.line}): the dtype must be one of "
                f"{', '.join(_DTYPES)}, got {dtype!r}"
            )


class EventDecl(Declaration):
    """A kind of event; see :func:`event`."""

    what = "event"

    def __init__(self, fields: Mapping[str, Any] | None, even_if_dead: bool) -> None:
        super().__init__()
        self.even_if_dead = bool(even_if_dead)
        self.fields: tuple[tuple[str, np.dtype], ...] = ()
        where = f"event ({self.file}:{self.line})"
        for name, dtype in dict(fields or {}).items():
            if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
                raise ModelError(f"{where}: {name!r} can't be the name of a field")
            if name in _EVENT_NAMES:
                raise ModelError(f"{where}: {name!r} is a field that every event has already")
            try:
                dt = np.dtype(dtype)
            except TypeError:
                dt = np.dtype("V1")
            if dt.str.lstrip("<|=") not in _DTYPES:
                raise ModelError(
                    f"{where}: field {name!r} must have one of the dtypes "
                    f"{', '.join(_DTYPES)}, got {dtype!r}"
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
        self.column, self.cell, self.low, self.high = column, cell, low, high


class TotalDecl(Declaration):
    """A reduction over a column; see :func:`total`."""

    what = "total"
    ops = ("sum", "mean", "min", "max", "argmin", "argmax")

    def __init__(self, op: str, column: str, item: int, alive_only: bool) -> None:
        super().__init__()
        if op not in self.ops:
            raise ModelError(
                f"total ({self.file}:{self.line}): the operation must be one of "
                f"{', '.join(self.ops)}, got {op!r}"
            )
        self.op, self.column, self.item, self.alive_only = op, column, item, bool(alive_only)


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
        self.at, self.over, self.include = at, over, include
        self.on_step, self.on_reset = on_step, bool(on_reset)
        if not on_step:
            self.what = "reset"
        if include not in ("alive", "acted", "all"):
            raise self.error(f'include must be "alive", "acted" or "all", got {include!r}')


class OnDecl(MethodDecl):
    """The handler of a kind of event; see :func:`on`."""

    what = "handler"
    parameters = ("ctx", "s", "i", "e")

    def __init__(self, fn: Callable[..., Any], kind: str) -> None:
        super().__init__(fn)
        self.kind = kind


# ---- what users call -----------------------------------------------------------------------


def param(default: Any, *, low: Any = None, high: Any = None, doc: str = "") -> Any:
    """A parameter: a number chosen when the model is built, ``Model(name=value)``.

    Args:
        default: int, float or bool; its type is the parameter's.
        low: least allowed value.
        high: greatest allowed value.
        doc: one line for ``seer envs`` and error messages.

    In methods it is ``s.p.name``; another value never compiles anything again.
    """
    return Param(default, low, high, doc)


def column(
    dtype: Any = "f8", shape: Value = (), *, published: bool = False, of: str | None = None,
    initial: Any = 0,
) -> Any:  # fmt: skip
    """State: one value or short vector for every entity of a group.

    Args:
        dtype: one of u1 i1 u2 i2 u4 i4 u8 i8 f4 f8.
        shape: shape of one entity's row: an int, a tuple, ``()`` for one value, the name of a
            parameter, or a function of the parameters.
        published: others may read it, as it was when last published, through ``s.seen.name[j]``.
        of: the group that has it; all entities by default.
        initial: what a row holds after a reset; a number, an array of the row's shape, or a
            function of the parameters.

    In methods ``s.name[i]`` and ``s.name[i, k]`` are the entity's own latest values. Reading one
    element gives a float64, an int64 or (from u8) a uint64, whatever the column's width.
    """
    return ColumnDecl(dtype, shape, published, of, initial)


def action(dtype: Any = "f4", shape: Value = (), *, initial: Any = 0) -> Any:
    """The agents' action: a column that the caller writes before each step."""
    return ColumnDecl(dtype, shape, False, "<agents>", initial, "action")


def observation(dtype: Any = "f4", shape: Value = (), *, initial: Any = 0) -> Any:
    """The agents' observation: a column that the caller reads after each step."""
    return ColumnDecl(dtype, shape, False, "<agents>", initial, "observation")


def reward() -> Any:
    """The agents' reward of the step: a float64 column that the model sets."""
    return ColumnDecl("f8", (), False, "<agents>", 0.0, "reward")


def terminated() -> Any:
    """Whether the task has ended for an agent: a u1 column that the model sets."""
    return ColumnDecl("u1", (), False, "<agents>", 0, "terminated")


def event(fields: Mapping[str, Any] | None = None, *, even_if_dead: bool = False) -> Any:
    """A kind of event.

    Args:
        fields: name -> dtype, packed in this order into at most 40 bytes. Up to 8 bytes travel
            within the event; more cost a second line of memory.
        even_if_dead: handled although the entity is dead.
    """
    return EventDecl(fields, even_if_dead)


def grid(column: str, *, cell: Value, low: Value = 0.0, high: Value = 1.0) -> Any:
    """Cells over a published position column, for ``ctx.near(name, x, y, radius)``.

    Args:
        column: a published f8 column with rows of 2 or 3 components (cells use the first two).
        cell: side of a cell, in the column's unit; about the radius of the queries is best.
        low: least coordinates of the covered area: one value for both axes, or a pair.
        high: its greatest coordinates. Entities outside count to the border cells, so the
            area affects speed only.

    Each value is a number, the name of a parameter or a function of the parameters.
    """
    return GridDecl(column, cell, low, high)


def total(op: str, column: str, item: int = 0, *, alive_only: bool = False) -> Any:
    """A reduction over a column's latest values, read as ``s.total.name`` (float64).

    Args:
        op: "sum", "mean", "min", "max", "argmin" or "argmax" (an entity's id).
        column: a column of dtype u1, i4, i8, f4 or f8.
        item: which component of the row, counted through it in order.
        alive_only: dead entities are left out.

    Computed in fixed blocks of 256 entities in index order where the engine publishes, so the
    bits do not depend on the number of threads.
    """
    return TotalDecl(op, column, item, alive_only)


def sweep(
    at: Value = 0.0, *, over: str | None = None, include: str = "alive", on_reset: bool = False,
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """Runs a method ``(ctx, s, i)`` for every entity of a group, once a step.

    Args:
        at: when in the step: seconds, ``"end"``, a parameter's name or a function of the
            parameters. It sees every event before that instant and none at it.
        over: the group; all entities by default.
        include: "alive" (now), "acted" (alive when the step began) or "all".
        on_reset: also run when a world is reset, after the reset sweeps.
    """
    if callable(at) and getattr(at, "__name__", "") != "<lambda>" and _takes_three(at):
        raise ModelError(f"write @seer.sweep() with parentheses above {at.__name__}")
    return lambda fn: SweepDecl(fn, at, over, include, True, on_reset)


def reset(fn: Callable[..., Any] | None = None, *, over: str | None = None) -> Any:
    """Runs a method ``(ctx, s, i)`` for every entity of a group when a world is reset."""
    if fn is not None:
        return SweepDecl(fn, 0.0, over, "all", False, True)
    return lambda f: SweepDecl(f, 0.0, over, "all", False, True)


def on(kind: str) -> Callable[[Callable[..., Any]], Any]:
    """Makes a method ``(ctx, s, i, e)`` the handler of a kind of event.

    ``e.time`` (ticks), ``e.source``, ``e.sequence``, ``e.round`` and the kind's fields by name.
    """
    if not isinstance(kind, str):
        raise ModelError(f'write @seer.on("kind"), with the name of an event; got {kind!r}')
    return lambda fn: OnDecl(fn, kind)


def _takes_three(fn: Any) -> bool:
    code = getattr(fn, "__code__", None)
    return code is not None and code.co_argcount == 3


# ---- the class -----------------------------------------------------------------------------


class _Body(dict):  # type: ignore[type-arg]
    """The namespace of a class body: a second declaration of one name is an error."""

    def __setitem__(self, key: str, value: Any) -> None:
        old = self.get(key)
        if isinstance(old, Declaration) and old is not value:
            line = getattr(value, "line", sys._getframe(1).f_lineno)
            raise ModelError(
                f"{key!r} ({old.file}:{line}) is declared already, as {old.what} at line {old.line}"
            )
        super().__setitem__(key, value)


class ModelMeta(type):
    """Collects declarations and checks them when the class is made."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> dict[str, Any]:
        return _Body()

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], abstract: bool = False
    ) -> Any:
        made: Any = super().__new__(cls, name, bases, dict(body))
        made.declared = {}
        for base in reversed(made.__mro__):
            for key, value in vars(base).items():
                if isinstance(value, Declaration):
                    made.declared.pop(key, None)
                    made.declared[key] = value
                else:
                    made.declared.pop(key, None)  # a subclass replaced or removed it
        if bases and not abstract:
            from . import analysis

            _check_declarations(made)
            made.analysis = analysis.analyse(made)
        return made

    def __repr__(cls) -> str:
        return f"<event model {cls.__name__}>"

    def of(cls, *kinds: type) -> dict[str, Any]:
        """The declarations of these classes, in order."""
        return {k: d for k, d in cls.declared.items() if isinstance(d, kinds)}  # type: ignore[attr-defined]


class EventModel(metaclass=ModelMeta):
    """Base of all models. Subclass it, declare, and give it to :class:`seer.Engine`.

    Settings of the class (numbers; ``step`` and ``lookahead`` also parameters, their names, or
    functions of the parameters):

    * ``groups``: name -> how many entities (int, parameter's name, function of the parameters).
    * ``agents``: the group that acts, if any.
    * ``step``: length of a step, s. ``lookahead``: least delay of an event to another entity, s.
    * ``tick``: length of a tick, s; 1 ns.
    * ``lane_capacity``, ``world_capacity``: most pending events of an entity, of a world;
      ``step_capacity``: most events handled in a step; ``max_rounds``: most rounds at an instant.

    Raises:
        ModelError: where the class is made, for a broken rule.
        ConfigError: where an instance is made, for a parameter.
    """

    declared: dict[str, Declaration]
    groups: Mapping[str, Value] = {}
    agents: str | None = None
    step: Value = 0.1
    lookahead: Value = 0.0
    tick: float = 1e-9
    lane_capacity: int = 4096
    world_capacity: int = 2**26
    step_capacity: int = 2**31
    max_rounds: int = 64

    params: dict[str, bool | int | float]
    p: Any
    spec: ModelSpec

    def __init__(self, **params: Any) -> None:
        cls = type(self)
        known = cls.of(Param)
        for name in params:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.5)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                have = ", ".join(known) or "none"
                raise ConfigError(
                    f"{cls.__name__} has no parameter {name!r}{hint} (parameters: {have})"
                )
        self.params = {
            name: d.convert(params.get(name, d.default), cls.__name__) for name, d in known.items()
        }
        self.p = namedtuple(f"{cls.__name__}Params", list(known))(**self.params)
        self.spec = resolve(self)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        return f"{type(self).__name__}({inner})"


def _check_declarations(cls: Any) -> None:
    """The rules that do not need the methods' source."""
    for name, decl in cls.declared.items():
        if isinstance(decl, Param) and name in ("step", "lookahead"):
            continue
        if name in _SETTINGS:
            raise decl.error("this name is a setting of models; choose another")
        if name.startswith("_"):
            raise decl.error("names may not start with an underscore")
        if isinstance(decl, ColumnDecl) and name in _STATE_NAMES:
            raise decl.error("this name is built in; choose another")
        if name in ("of", "analysis", "declared"):
            raise decl.error("this name is used by models themselves; choose another")
    _check_numbers(cls)
    columns = cls.of(ColumnDecl)
    if len(columns) + len(BUILT_IN) > MAX_COLUMNS:
        raise ModelError(
            f"{cls.__name__}: at most {MAX_COLUMNS - len(BUILT_IN)} columns may be declared, "
            f"got {len(columns)}"
        )
    groups = cls.groups
    if not isinstance(groups, Mapping) or not groups:
        raise ModelError(
            f'{cls.__name__}: groups must name the entities, as in groups = {{"drone": 16}}, '
            f"got {groups!r}"
        )
    for name in groups:
        if not isinstance(name, str) or name in ("all", "<agents>"):
            raise ModelError(f"{cls.__name__}: a group may not be named {name!r}")
    if cls.agents is not None and cls.agents not in groups:
        raise ModelError(f"{cls.__name__}: agents = {cls.agents!r} is no group; {_have(groups)}")
    roles: dict[str, Any] = {}
    for d in columns.values():
        if d.role is not None:
            if cls.agents is None:
                raise d.error(f"a {d.role} needs agents; set agents to one of the groups")
            if d.role in roles:
                raise d.error(f"{roles[d.role].name!r} is the {d.role} already")
            roles[d.role] = d
        elif d.of is not None and d.of != "all" and d.of not in groups:
            raise d.error(f"of={d.of!r} is no group; {_have(groups)}")
    for d in cls.of(SweepDecl).values():
        if d.over is not None and d.over != "all" and d.over not in groups:
            raise d.error(f"over={d.over!r} is no group; {_have(groups)}")
    kinds = cls.of(EventDecl)
    handled: dict[str, Any] = {}
    for d in cls.of(OnDecl).values():
        if d.kind not in kinds:
            near = difflib.get_close_matches(d.kind, kinds, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise d.error(f"there is no event {d.kind!r}{hint} ({_have(kinds)})")
        if d.kind in handled:
            raise d.error(
                f"event {d.kind!r} has a handler already, {handled[d.kind].name!r} at line "
                f"{handled[d.kind].line}"
            )
        handled[d.kind] = d
    for d in cls.of(GridDecl, TotalDecl).values():
        built_in = isinstance(d, TotalDecl) and d.column == "alive"
        if d.column not in columns and not built_in:
            raise d.error(f"there is no column {d.column!r}; {_have(columns)}")
        if isinstance(d, GridDecl):
            c = columns[d.column]
            if not c.published:
                raise d.error(
                    f"a grid needs a published column; write published=True for {d.column!r} "
                    f"(line {c.line})"
                )
            if c.dtype != np.float64:
                raise d.error(f"a grid needs an f8 column, {d.column!r} is {c.dtype.str}")
        elif not built_in and columns[d.column].dtype.str[1:] not in ("u1", "i4", "i8", "f4", "f8"):
            raise d.error(
                f"a total needs a column of u1, i4, i8, f4 or f8, {d.column!r} is "
                f"{columns[d.column].dtype.str[1:]}"
            )


def _check_numbers(cls: Any) -> None:
    """What is a plain number can be judged here; the rest when it is known."""
    for name, least, words in (
        ("step", 0.0, "above 0"), ("lookahead", -1.0, "0 or more"), ("tick", 0.0, "above 0"),
    ):  # fmt: skip
        value = getattr(cls, name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low_enough = value > least if least == 0.0 else value >= 0
            if not (math.isfinite(value) and low_enough):
                raise ModelError(
                    f"{cls.__name__}: {name} must be finite and {words} (seconds), got {value!r}"
                )
    for d in cls.of(SweepDecl).values():
        if isinstance(d.at, (int, float)) and not (math.isfinite(d.at) and d.at >= 0):
            raise d.error(f"at must be finite and 0 or more (seconds), got {d.at!r}")
        if isinstance(d.at, str) and d.at != "end" and d.at not in cls.of(Param):
            raise d.error(f'at must be seconds, "end" or the name of a parameter, got {d.at!r}')


def _have(names: Mapping[str, Any]) -> str:
    return "there is " + ", ".join(repr(n) for n in names) if names else "there is none"
