"""Declaring a model: parameters, state columns, event kinds, sweeps and handlers.

A model is a class. Its body names what an entity remembers (columns), what may happen to it
(events) and what is done when (sweeps and handlers); the checks of :mod:`seer.analysis` run
when the class is made, so a mistake is an error at import, with the line it stands on. An
instance binds the parameters; its :attr:`EventModel.spec` is the resolved description that the
engine and the compiler read.
"""

from __future__ import annotations

import difflib
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from .analysis import analyse
from .checks import check_declarations
from .declare import (
    ColumnDecl,
    Declaration,
    EventDecl,
    GridDecl,
    OnDecl,
    Param,
    SweepDecl,
    TotalDecl,
    Value,
)
from .errors import ConfigError, ModelError
from .spec import (
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
        # A class without any content is one that an unpickler is about to fill.
        empty = not made.declared and not made.groups and set(body) <= {"__module__", "__slots__"}
        if bases and not abstract and not empty:
            check_declarations(made)
            made.analysis = analyse(made)
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
    * ``agents``: the group that acts, if any; one, and its agents have the same spaces.
    * ``step``: length of a step, s. ``lookahead``: least delay of an event to another entity, s.
    * ``tick``: length of a tick, s; 1 ns.
    * ``lane_capacity``, ``world_capacity``: most pending events of an entity, of a world;
      ``step_capacity``: most events handled in a step; ``max_rounds``: most rounds at an instant.

    ``observation_space`` and ``action_space``, functions of the parameters that give a gymnasium
    space, replace the unbounded ``Box`` of the column.

    Entities are numbered through all groups in their order: with ``{"sheep": 40, "wolf": 3}`` the
    wolves are 40 to 42. These ids are ``i``, ``e.source``, the ``to`` of a send and what
    ``ctx.found`` gives; a column ``of`` a group is indexed with them as well. A method has

    * ``s.name[i]``: the entity's own latest values; ``s.seen.name[j]``: published ones of anybody.
    * ``s.alive[i]``: a column of every model. An entity that writes 0 into it is dead until the
      next reset: sweeps leave it out, and events for it are not handled. Published.
    * ``s.acted[i]``: whether it lived when the step began, read-only.
    * ``s.p.name``, ``s.total.name``: parameters and reductions.
    * ``ctx.send(kind, to, delay, *fields)``, delay in s; ``ctx.send_ticks``, delay in ticks.
    * ``ctx.now``, ticks, and ``ctx.time``, s, since the reset; ``ctx.step``, steps completed.
    * ``ctx.uniform()`` in [0, 1), ``ctx.normal()``, ``ctx.integers(n)`` in [0, n), ``ctx.bits()``,
      64 of them.
    * ``ctx.near(grid, x, y, radius)`` (and z, for a column with three components): how many living
      entities were there when last published, the entity itself included; ``ctx.found(k)``: their
      ids.
    * ``ctx.fail(code)``: end the run with an error that names entity and time.
    * the functions of :mod:`seer.math`, whose bits are equal in both forms.

    A method that meets an entity outside the group of a column that it uses fails, in every form.
    Else compiled methods don't check that an index computed at run time is in range; ``debug=True``
    and ``compiled=False`` of :class:`seer.Engine`, and :func:`seer.verify`, do.

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

    def __init__(self, /, **params: Any) -> None:
        cls = type(self)
        if not hasattr(cls, "analysis"):
            check_declarations(cls)
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

    def __reduce__(self) -> Any:
        return _remade, (type(self), self.params)

    def describe(self) -> list[dict[str, Any]]:
        """The parameters, in order: "name", "value", "default", "low", "high" and "doc" of each."""
        return [
            {
                "name": name, "value": self.params[name], "default": d.default,
                "low": d.low, "high": d.high, "doc": d.doc,
            }
            for name, d in type(self).of(Param).items()
        ]  # fmt: skip

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        return f"{type(self).__name__}({inner})"


def _remade(cls: type[EventModel], params: dict[str, Any]) -> EventModel:
    """A model out of a pickle."""
    return cls(**params)
