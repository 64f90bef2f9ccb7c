"""What a model's methods are given when they run as plain Python: `ctx` and a checking `s`.

In this form every access is checked: an entity reads and writes its own latest values only, what
is published of others is read-only, ids and indices are in range, and a method writes only the
columns that its declaration was found to write. A broken rule is a :class:`~seer.errors.ModelError`
that names the method, its line and the rule. Elements are read as float64, int64 or uint64, as in
the compiled form.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections import namedtuple
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import faults
from .errors import ModelError
from .events import NARROW_BYTES, WIDE_BYTES, pack, payload_dtype, stored, unpack

if TYPE_CHECKING:
    from .reference import World

_MASK = 2**64 - 1


def mix(z: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014; variant 13 by D. Stafford)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def world_key(seed: int, episode: int) -> int:
    """The key of a world's random numbers, from its seed and its episode since it was seeded."""
    start = mix((seed + 0x9E3779B97F4A7C15) & _MASK)
    return mix((start + (episode + 1) * 0xD1B54A32D192ED03) & _MASK)


def draw(key: int, entity: int, n: int) -> int:
    """Draw n of an entity: 64 bits."""
    stream = mix((key + (entity + 1) * 0x8CB92BA72F3D8DD7) & _MASK)
    return mix((stream + (n + 1) * 0x9E3779B97F4A7C15) & _MASK)


def widened(value: Any) -> Any:
    """One element as methods see it: float64, int64 or, from u8, uint64."""
    kind = value.dtype.kind
    if kind == "f":
        return np.float64(value)
    if kind == "u" and value.dtype.itemsize == 8:
        return np.uint64(value)
    return np.int64(value)


class Running:
    """Which method runs for whom; shared by `ctx` and `s`."""

    def __init__(self) -> None:
        self.entity = 0
        self.round = 0
        self.now = 0
        self.writes = 0
        self.kind = faults.NONE
        self.sweep = faults.NONE
        self.method: Any = None
        self.event: Any = None  # being handled; None in a sweep
        self.refused: faults.Fault | None = None

    def broken(self, rule: str) -> NoReturn:
        """Stop: the method breaks a rule of models."""
        m = self.method
        raise ModelError(
            f"{m.name} ({m.file}:{m.line}), running for entity {self.entity}: {rule}",
            method=m.name,
            file=m.file,
            line=m.line,
        )


class _Rows:
    """One column of one world, latest or published; the row is an entity's id."""

    def __init__(self, run: Running, number: int, column: Any, rows: Any, seen: bool) -> None:
        self._run, self._number, self._column = run, number, column
        self._rows, self._seen = rows, seen
        self._name = f"s.seen.{column.name}" if seen else f"s.{column.name}"

    def _place(self, index: Any) -> tuple[int, ...]:
        parts = index if isinstance(index, tuple) else (index,)
        run, column = self._run, self._column
        shown = f"{self._name}[{', '.join(map(str, parts))}]"
        try:
            numbers = [
                part if k and isinstance(part, slice) else operator.index(part)
                for k, part in enumerate(parts)
            ]
        except TypeError:
            run.broken(f"{shown}: expected whole numbers")
        entity, group = numbers[0], column.group
        if not group.first <= entity < group.first + group.count:
            run.broken(
                f"{self._name}[{entity}]: expected an id of group '{group.name}', "
                f"{group.first} to {group.first + group.count - 1}"
            )
        if not self._seen and entity != run.entity:
            hint = (
                f"read s.seen.{column.name}[{entity}]"
                if column.published
                else f"declare {column.name} published=True and read s.seen.{column.name}[{entity}]"
            )
            run.broken(
                f"{self._name}[{entity}] is another entity's latest value; expected "
                f"{self._name}[{run.entity}]. To read it, {hint}"
            )
        inner = numbers[1:]
        if len(inner) > len(column.shape):
            run.broken(f"{shown} is out of range: a row has shape {column.shape}")
        for at, size in zip(inner, column.shape, strict=False):
            if not isinstance(at, slice) and not 0 <= at < size:
                run.broken(f"{shown} is out of range: a row has shape {column.shape}")
        return (entity - group.first, *inner)

    def _may_write(self, index: Any) -> tuple[int, ...]:
        run, column = self._run, self._column
        if self._seen:
            run.broken(
                f"{self._name}[{index!r}] = ...: published values are the engine's; "
                f"write s.{column.name}, which it publishes around every sweep"
            )
        place = self._place(index)
        if not run.writes >> self._number & 1:
            run.broken(
                f"{self._name}[{index!r}] = ...: the method was not found to write {column.name} "
                "when it was declared; write it in the form s.name[i, ...] = value"
            )
        return place

    def __getitem__(self, index: Any) -> Any:
        value = self._rows[self._place(index)]
        if not isinstance(value, np.ndarray):
            return widened(value)
        if self._seen or not self._run.writes >> self._number & 1:
            value = value.view()
            value.flags.writeable = False
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._may_write(index)
        self._rows[place] = stored(value, self._column.dtype)

    def __repr__(self) -> str:
        return f"<{self._name}: one row per {self._column.group.name}, read with [i]>"


class _Names:
    """Attributes that exist or are refused by name, and can't be assigned."""

    def __init__(self, run: Running, what: str, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.__dict__["_run"] = run
        self.__dict__["_what"] = what

    def __getattr__(self, name: str) -> NoReturn:
        known = [key for key in self.__dict__ if not key.startswith("_")]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {self._what}.{near[0]}?" if near else f" (there is {known})"
        self._run.broken(f"{self._what}.{name} does not exist{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._run.broken(
            f"{self._what}.{name} = ... can't be assigned; write {self._what}.{name}[i]"
        )

    def __repr__(self) -> str:
        return f"<{self._what}: {', '.join(k for k in self.__dict__ if not k.startswith('_'))}>"


def parameters(params: dict[str, Any]) -> Any:
    """`s.p`: the parameters, as int64, float64 or bool."""

    def typed(value: Any) -> Any:
        if isinstance(value, bool):
            return value
        return np.int64(value) if isinstance(value, int) else np.float64(value)

    kind = namedtuple("Parameters", list(params))  # type: ignore[misc]
    return kind(**{name: typed(value) for name, value in params.items()})


def state(run: Running, spec: Any, latest: list[Any], seen: list[Any], totals: Any) -> Any:
    """`s` of one world.

    Args:
        run: who is running.
        spec: the model's resolved description.
        latest, seen: (count, ...) arrays by column; None for what is not published.
        totals: where the reductions are, by name.
    """
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for number, column in enumerate(spec.columns):
        own[column.name] = _Rows(run, number, column, latest[number], seen=False)
        if column.published:
            others[column.name] = _Rows(run, number, column, seen[number], seen=True)
    own["seen"] = _Names(run, "s.seen", others)
    own["p"] = parameters(spec.params)
    own["total"] = totals
    return _Names(run, "s", own)


class Context:
    """`ctx` of one world."""

    def __init__(self, world: World, run: Running) -> None:
        self._world, self._run = world, run
        spec = world.spec
        self._kinds = {kind.name: number for number, kind in enumerate(spec.kinds)}
        self._layouts = [payload_dtype(kind.fields) for kind in spec.kinds]
        self._grids = {grid.name: number for number, grid in enumerate(spec.grids)}
        self._found: list[int] = []

    # ---- when ----------------------------------------------------------------------------

    @property
    def now(self) -> Any:
        return np.int64(self._run.now)

    @property
    def time(self) -> Any:
        return np.float64(self._run.now) * np.float64(self._world.spec.tick)

    @property
    def step(self) -> Any:
        return np.int64(self._world.steps)

    # ---- events --------------------------------------------------------------------------

    def send(self, kind: str, to: Any, delay: Any, *fields: Any) -> Any:
        """An event for `to` after `delay` seconds, rounded half to even."""
        ticks = np.rint(np.float64(delay) / np.float64(self._world.spec.tick))
        if not abs(ticks) <= faults.TIME_MAX:  # also when it is not a number
            return self._refuse(
                faults.ETIME, kind, to, faults.NEVER, limit=faults.TIME_MAX, value=float(delay)
            )
        return self._send(kind, to, int(ticks), fields)

    def send_ticks(self, kind: str, to: Any, ticks: Any, *fields: Any) -> Any:
        """An event for `to` after a whole number of ticks."""
        return self._send(kind, to, operator.index(ticks), fields)

    def _send(self, name: str, to: Any, ticks: int, fields: tuple[Any, ...]) -> Any:
        run, world = self._run, self._world
        number = self._number(name)
        target = operator.index(to)
        when = run.now + ticks
        kind = world.spec.kinds[number]
        if len(fields) != len(kind.fields):
            run.broken(
                f"ctx.send({name!r}, ...): expected {len(kind.fields)} fields "
                f"({', '.join(field for field, _ in kind.fields) or 'none'}), got {len(fields)}"
            )
        if not 0 <= target < world.spec.entities:
            return self._refuse(faults.ETARGET, name, to, when, limit=world.spec.entities)
        if ticks < 0:
            return self._refuse(faults.EPAST, name, to, when, limit=faults.TIME_MAX)
        if when > faults.TIME_MAX:
            far = ticks * world.spec.tick
            return self._refuse(faults.ETIME, name, to, when, limit=faults.TIME_MAX, value=far)
        if target != run.entity and ticks < world.spec.lookahead:
            return self._refuse(faults.ECAUSALITY, name, to, when, limit=world.spec.lookahead)
        turn = run.round + 1 if ticks == 0 else 0
        if turn > world.spec.max_rounds:
            return self._refuse(faults.EROUNDS, name, to, when, limit=world.spec.max_rounds)
        if world.sequences[run.entity] >= faults.NONE:
            return self._refuse(faults.ESEQUENCE, name, to, when, limit=faults.TIME_MAX)
        size = WIDE_BYTES if kind.wide else NARROW_BYTES
        world.push(
            when, turn, target, run.entity, number, pack(self._layouts[number], fields, size)
        )
        return True

    def _number(self, name: str) -> int:
        number = self._kinds.get(name)
        if number is None:
            self._run.broken(f"ctx.send({name!r}, ...): expected one of {list(self._kinds)}")
        return number

    def _refuse(self, code: int, kind: str, to: Any, when: int, **more: Any) -> bool:
        """Remember why an event was refused; told when the method returns."""
        run, world = self._run, self._world
        target = operator.index(to)
        if run.refused is None:
            run.refused = world.fault_now(
                code,
                target=target if 0 <= target < faults.NONE else faults.NONE,
                kind=self._number(kind),
                event_time=when,
                **more,
            )
        return False

    def fail(self, code: Any) -> None:
        """Report a failure of this entity; the code is the model's own."""
        run = self._run
        if run.refused is None:
            number = (operator.index(code) + 2**31) % 2**32 - 2**31  # int32, as in the core
            run.refused = self._world.fault_now(faults.EFAIL, user_code=number)

    # ---- random numbers ------------------------------------------------------------------

    def _bits(self) -> int:
        world, entity = self._world, self._run.entity
        draws = world.draws
        n = int(draws[entity])
        draws[entity] = n + 1
        return draw(world.key, entity, n)

    def bits(self) -> Any:
        return np.uint64(self._bits())

    def uniform(self) -> Any:
        return np.float64((self._bits() >> 11) * 2.0**-53)

    def normal(self) -> Any:
        """Box and Muller, Annals of Mathematical Statistics 29 (1958)."""
        first = ((self._bits() >> 11) + 1) * 2.0**-53
        second = (self._bits() >> 11) * 2.0**-53
        return np.float64(math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second))

    def integers(self, n: Any) -> Any:
        number = operator.index(n)
        if not 0 < number < 2**63:
            self.fail(faults.INTEGERS)
        return np.int64((self._bits() * (number & (_MASK >> 1))) >> 64)

    # ---- neighbours ----------------------------------------------------------------------

    def near(self, grid: str, *point_and_radius: Any) -> Any:
        """How many are within the radius of a point; their ids by `found`."""
        number = self._grids.get(grid)
        if number is None:
            self._run.broken(f"ctx.near({grid!r}, ...): expected one of {list(self._grids)}")
        components = self._world.spec.grids[number].components
        if len(point_and_radius) != components + 1:
            self._run.broken(
                f"ctx.near({grid!r}, ...): expected {components} coordinates and a radius, "
                f"got {len(point_and_radius)} numbers"
            )
        *point, radius = (float(value) for value in point_and_radius)
        self._found = self._world.grid(number).near(point, radius)
        return np.int64(len(self._found))

    def found(self, k: Any) -> Any:
        at = operator.index(k)
        if not 0 <= at < len(self._found):
            self._run.broken(f"ctx.found({at}): the last near found {len(self._found)}")
        return np.int64(self._found[at])


def event_view(kind: Any, layout: Any, event: tuple[Any, ...]) -> SimpleNamespace:
    """`e`: time, source, sequence, round, and the fields by name."""
    time, turn, _, source, sequence, _, payload = event
    values = zip((name for name, _ in kind.fields), unpack(layout, payload), strict=True)
    return SimpleNamespace(
        time=np.int64(time),
        source=np.int64(source),
        sequence=np.int64(sequence),
        round=np.int64(turn),
        **{name: widened(value) for name, value in values},
    )
