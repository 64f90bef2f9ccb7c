"""A model with its parameters bound: what the engine and the compiler read.

All times are ticks here; names have become indices where the native core wants them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import ConfigError

MAX_COLUMNS = 64
TIME_MAX = 2**61
#: name -> dtype, published, initial; the order is that of the native core.
BUILT_IN = (("alive", "u1", True, 1), ("acted", "u1", False, 0), ("draws", "u8", False, 0))
FIRST_COLUMN = len(BUILT_IN)


@dataclass(frozen=True)
class Group:
    """Entities ``first`` to ``first + count - 1``."""

    name: str
    first: int
    count: int


@dataclass(frozen=True, eq=False)
class Column:
    """State of a group; ``initial`` is one row."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    group: Group
    published: bool
    initial: np.ndarray
    role: str | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(self.dtype.itemsize * math.prod(self.shape))


@dataclass(frozen=True)
class Method:
    """A method of the model, with the place to name in messages."""

    fn: Callable[..., Any]
    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Kind:
    """A kind of event. ``fields`` are packed in order; without a method it is only counted."""

    name: str
    fields: tuple[tuple[str, np.dtype], ...]
    wide: bool
    even_if_dead: bool
    method: Method | None


@dataclass(frozen=True)
class Sweep:
    """Uniform work at ``offset`` ticks into the step; bit c of ``writes``: may write column c."""

    name: str
    offset: int
    group: Group
    include: str
    on_step: bool
    on_reset: bool
    writes: int
    method: Method


@dataclass(frozen=True)
class Total:
    """A reduction over a column's latest values; ``item`` is a component of the row."""

    name: str
    op: str
    column: int
    item: int
    alive_only: bool


@dataclass(frozen=True)
class Grid:
    """Cells over the first two components of a published column."""

    name: str
    column: int
    group: Group
    components: int
    low: tuple[float, float]
    high: tuple[float, float]
    cell: float


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """The resolved description of a model. Times are in ticks of ``tick`` seconds."""

    name: str
    params: dict[str, bool | int | float]
    groups: tuple[Group, ...]
    agents: Group | None
    columns: tuple[Column, ...]
    kinds: tuple[Kind, ...]
    sweeps: tuple[Sweep, ...]
    totals: tuple[Total, ...]
    grids: tuple[Grid, ...]
    handler_writes: int
    lookahead: int
    step: int
    tick: float
    max_rounds: int
    lane_capacity: int
    world_capacity: int
    step_capacity: int
    entities: int
    hash: str = field(repr=False, default="")

    def seconds(self, ticks: int) -> float:
        """Ticks in seconds, the double that is nearest where the tick is a fraction 1/n of one."""
        # 1e-9 has no exact double, its inverse has: 300_000_000 ticks are 0.3 s.
        inverse = 1.0 / self.tick
        if 1.0 < inverse < 2.0**53 and 1.0 / round(inverse) == self.tick:
            return ticks / round(inverse)
        return ticks * self.tick

    def column(self, name: str) -> Column:
        """A column by name; KeyError if there is none."""
        return self.columns[self.column_index(name)]

    def column_index(self, name: str) -> int:
        """The index of a column; KeyError if there is none."""
        for k, c in enumerate(self.columns):
            if c.name == name:
                return k
        raise KeyError(name)

    def role(self, role: str) -> Column | None:
        """The column with this role ("action", "observation", "reward", "terminated")."""
        return next((c for c in self.columns if c.role == role), None)

    @property
    def methods(self) -> tuple[Method, ...]:
        """Every method: of the sweeps, then of the kinds that have one."""
        return tuple(s.method for s in self.sweeps) + tuple(
            k.method for k in self.kinds if k.method is not None
        )


def finite(value: Any) -> bool:
    """Whether a number fits a float and is neither infinite nor NaN."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


class _Resolver:
    """Turns values that may name or compute from parameters into numbers."""

    def __init__(self, model: Any) -> None:
        self.p, self.params, self.owner = model.p, model.params, type(model).__name__

    def value(self, value: Any, what: str) -> Any:
        if isinstance(value, str):
            if value not in self.params:
                raise ConfigError(f"{self.owner}: {what} names a parameter {value!r}, which is not")
            return self.params[value]
        name = getattr(value, "name", None)
        if type(value).__name__ == "Param" and name in self.params:
            return self.params[name]
        if isinstance(value, staticmethod):
            value = value.__func__
        if callable(value):
            try:
                return value(self.p)
            except Exception as e:
                raise ConfigError(f"{self.owner}: {what} could not be computed: {e!r}") from e
        return value

    def number(self, value: Any, what: str) -> float:
        got = self.value(value, what)
        if isinstance(got, np.ndarray) and got.ndim == 0:
            got = got.item()
        if isinstance(got, bool) or not isinstance(got, (int, float, np.integer, np.floating)):
            raise ConfigError(f"{self.owner}: {what} must be a number, got {got!r}")
        if not finite(got):
            raise ConfigError(f"{self.owner}: {what} must be finite, got {got!r}")
        return float(got)

    def integer(self, value: Any, what: str, low: int, high: int) -> int:
        got = self.value(value, what)
        if isinstance(got, bool) or not isinstance(got, (int, np.integer)):
            raise ConfigError(f"{self.owner}: {what} must be an int, got {got!r}")
        if not low <= got <= high:
            raise ConfigError(f"{self.owner}: {what} must be from {low} to {high}, got {got}")
        return int(got)

    def shape(self, value: Any, what: str) -> tuple[int, ...]:
        got = self.value(value, what)
        axes = got if isinstance(got, (tuple, list)) else (got,)
        if len(axes) > 3:
            raise ConfigError(f"{self.owner}: {what} has {len(axes)} axes, at most 3 are allowed")
        return tuple(self.integer(a, what, 1, 2**24) for a in axes)

    def pair(self, value: Any, what: str) -> tuple[float, float]:
        got = self.value(value, what)
        if isinstance(got, (tuple, list, np.ndarray)):
            if len(got) != 2:
                raise ConfigError(f"{self.owner}: {what} must be one value or two, got {got!r}")
            return (self.number(got[0], what), self.number(got[1], what))
        one = self.number(got, what)
        return (one, one)


def to_ticks(seconds: float, tick: float) -> int:
    """Seconds in ticks, rounded half to even."""
    return int(np.rint(np.float64(seconds) / np.float64(tick)))


def resolve(model: Any) -> ModelSpec:
    """Bind a model's declarations to its parameters.

    Raises:
        ConfigError: a value is of the wrong type or out of its range.
    """
    from .declare import ColumnDecl, EventDecl, GridDecl, OnDecl, SweepDecl, TotalDecl

    cls = type(model)
    r = _Resolver(model)
    name = cls.__name__
    tick = r.number(cls.tick, "tick")
    if not tick > 0:
        raise ConfigError(f"{name}: tick must be above 0, got {tick}")

    def ticks(value: Any, what: str) -> int:
        seconds = r.number(value, what)
        if abs(seconds / tick) > TIME_MAX:
            raise ConfigError(f"{name}: {what} is too long, {seconds} s")
        return to_ticks(seconds, tick)

    step = ticks(cls.step, "step")
    if step < 1:
        raise ConfigError(f"{name}: step must be at least one tick ({tick} s), got {cls.step!r}")
    lookahead = ticks(cls.lookahead, "lookahead")
    if r.number(cls.lookahead, "lookahead") < 0:
        raise ConfigError(f"{name}: lookahead must not be negative, got {cls.lookahead!r}")

    groups: list[Group] = []
    first = 0
    for key, value in cls.groups.items():
        count = r.integer(value, f"the size of group {key!r}", 0, 2**31 - 1)
        groups.append(Group(key, first, count))
        first += count
    if not 1 <= first <= 2**31 - 1:
        raise ConfigError(f"{name}: from 1 to {2**31 - 1} entities are allowed, got {first}")
    everyone = Group("all", 0, first)
    by_name: dict[str | None, Group] = {g.name: g for g in groups}
    agents = by_name[cls.agents] if cls.agents is not None else None
    if agents is not None:
        by_name["<agents>"] = agents
    by_name[None] = by_name["all"] = everyone

    columns = [
        Column(n, np.dtype(t), (), everyone, pub, np.full((), init, t))
        for n, t, pub, init in BUILT_IN
    ]
    index = {c.name: k for k, c in enumerate(columns)}
    for key, d in cls.of(ColumnDecl).items():
        shape = r.shape(d.shape, f"the shape of column {key!r}") if d.shape != () else ()
        given = r.value(d.initial, f"the initial value of column {key!r}")
        try:
            row = np.ascontiguousarray(np.broadcast_to(np.asarray(given, d.dtype), shape))
        except (ValueError, TypeError, OverflowError) as e:
            raise ConfigError(
                f"{name}: the initial value of column {key!r} must fill a row of shape {shape} "
                f"and dtype {d.dtype.str[1:]}, got {given!r}"
            ) from e
        row = row.reshape(shape)
        if d.dtype.kind in "iu" and not np.array_equal(
            np.asarray(given), np.asarray(given, d.dtype)
        ):
            raise ConfigError(
                f"{name}: the initial value of column {key!r} must be whole, to fit its dtype "
                f"{d.dtype.str[1:]}, got {given!r}"
            )
        index[key] = len(columns)
        columns.append(Column(key, d.dtype, shape, by_name[d.of], d.published, row, d.role))

    writes = cls.analysis.writes(index)
    handlers = {d.kind: d for d in cls.of(OnDecl).values()}
    kinds = tuple(
        Kind(key, d.fields, d.bytes > 8, d.even_if_dead,
             handlers[key].method if key in handlers else None)
        for key, d in cls.of(EventDecl).items()
    )  # fmt: skip
    handler_writes = 0
    for d in handlers.values():
        handler_writes |= writes[d.name]

    sweeps = []
    for key, d in cls.of(SweepDecl).items():
        offset = step if d.at == "end" else ticks(d.at, f"at of sweep {key!r}")
        if not 0 <= offset <= step:
            raise ConfigError(
                f"{name}: at of sweep {key!r} must lie within the step, from 0 to "
                f"{step * tick:g} s, got {offset * tick:g} s"
            )
        sweeps.append(
            Sweep(key, offset, by_name[d.over], d.include, d.on_step, d.on_reset, writes[d.name],
                  d.method)
        )  # fmt: skip

    totals = []
    for key, d in cls.of(TotalDecl).items():
        c = columns[index[d.column]]
        item = r.integer(d.item, f"item of total {key!r}", 0, math.prod(c.shape) - 1)
        totals.append(Total(key, d.op, index[d.column], item, d.alive_only))

    grids = []
    for key, d in cls.of(GridDecl).items():
        c = columns[index[d.column]]
        if c.shape not in ((2,), (3,)):
            raise ConfigError(
                f"{name}: grid {key!r} needs rows of 2 or 3 components, {d.column!r} has shape "
                f"{c.shape}"
            )
        low, high = r.pair(d.low, f"low of grid {key!r}"), r.pair(d.high, f"high of grid {key!r}")
        cell = r.number(d.cell, f"cell of grid {key!r}")
        if not cell > 0:
            raise ConfigError(f"{name}: cell of grid {key!r} must be above 0, got {cell}")
        if not (low[0] < high[0] and low[1] < high[1]):
            raise ConfigError(
                f"{name}: grid {key!r} must have low below high, got {low} and {high}"
            )
        grids.append(Grid(key, index[d.column], c.group, c.shape[0], low, high, cell))

    spec = ModelSpec(
        name=name, params=dict(model.params), groups=tuple(groups), agents=agents,
        columns=tuple(columns), kinds=kinds, sweeps=tuple(sweeps), totals=tuple(totals),
        grids=tuple(grids), handler_writes=handler_writes, lookahead=lookahead, step=step,
        tick=tick,
        max_rounds=r.integer(cls.max_rounds, "max_rounds", 1, 65534),
        lane_capacity=r.integer(cls.lane_capacity, "lane_capacity", 1, 2**30),
        world_capacity=r.integer(cls.world_capacity, "world_capacity", 1, 2**62),
        step_capacity=r.integer(cls.step_capacity, "step_capacity", 1, 2**62),
        entities=first,
    )  # fmt: skip
    object.__setattr__(spec, "hash", _hash(spec))
    return spec


def _hash(spec: ModelSpec) -> str:
    """Everything that decides results. Capacities are left out: they only turn into errors."""
    from .source import fingerprint

    h = hashlib.sha256()

    def add(*parts: Any) -> None:
        h.update(repr(parts).encode())

    add(spec.name, sorted(spec.params.items()), spec.groups, spec.agents)
    add(spec.lookahead, spec.step, spec.tick, spec.totals, spec.grids)
    for c in spec.columns:
        add(c.name, c.dtype.str, c.shape, c.group, c.published, c.initial.tobytes(), c.role)
    for k in spec.kinds:
        add(k.name, [(n, t.str) for n, t in k.fields], k.even_if_dead)
        add(fingerprint(k.method.fn) if k.method else None)
    for s in spec.sweeps:
        add(s.name, s.offset, s.group, s.include, s.on_step, s.on_reset, fingerprint(s.method.fn))
    return h.hexdigest()
