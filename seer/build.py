"""What an engine is made of: its arguments checked, its arrays, its core."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .action_check import ActionCheck
from .arrays import Named, Totals, aligned
from .errors import ConfigError, OutOfMemoryError
from .hardware import available_memory, usable_cpus
from .model import EventModel
from .reference import ReferenceCore
from .types import MAX_THREADS, Array, FloatArray, PoolConfig, kind_of, whole


def instance(model: Any) -> EventModel:
    """The model itself; a class stands for its default parameters."""
    if isinstance(model, type) and issubclass(model, EventModel):
        model = model()
    if not isinstance(model, EventModel):
        raise ConfigError(
            f"Engine(model={model!r}): expected a seer.EventModel or a class derived from it, "
            f"got {type(model).__name__}"
        )
    return model


def world_count(worlds: Any) -> int:
    """`worlds` as an int of at least 1."""
    value = whole(worlds)
    if value is None:
        raise ConfigError(
            f"Engine(worlds={worlds!r}): expected a whole number, got {kind_of(worlds)}"
        )
    if not 1 <= value < 2**31:
        raise ConfigError(
            f"Engine(worlds={value}): expected at least 1 and under 2**31, got {value}"
        )
    return value


_AUTO_SPIN_US = 100.0


def pool_config(pool: Any, worlds: int) -> PoolConfig:
    """The pool that was asked for, or a decent one."""
    if isinstance(pool, PoolConfig):
        return pool
    if not isinstance(pool, str) or pool != "auto":
        raise ConfigError(
            f'pool={pool!r}: expected "auto" or a PoolConfig, got {type(pool).__name__}'
        )
    threads = min(usable_cpus(), MAX_THREADS)
    axis: Literal["worlds", "lanes"] = (
        "worlds" if worlds >= 2 * threads or threads == 1 else "lanes"
    )
    # between two sweeps of a step the windows may keep one thread busy for tens of microseconds,
    # and to wake the others takes as long again
    return PoolConfig(threads, axis, spin_us=_AUTO_SPIN_US)


_LANE_BYTES = 64  # the least that the core adds for an entity
_WORTH_ASKING = 1 << 28  # bytes; below it is never in doubt


def allocate(spec: Any, worlds: int, owner: str) -> tuple[list[Array], list[Array | None]]:
    """The latest and the published values of each column, (worlds, count, ...).

    Raises:
        OutOfMemoryError: there is not so much.
    """
    size = worlds * sum(c.row_bytes * c.group.count * (1 + c.published) for c in spec.columns)
    needed = size + worlds * spec.entities * _LANE_BYTES
    # The system gives out more than it has, and kills the process when that is used.
    free = available_memory() if needed >= _WORTH_ASKING else None
    words = f"{owner}: {worlds} worlds need {size} bytes for their columns"
    if free is not None and needed > free:
        raise OutOfMemoryError(
            f"{words} and more for their queues, which could not be had: {free} are available"
        )

    def rows(column: Any) -> Array:
        return aligned((worlds, column.group.count, *column.shape), column.dtype)

    try:
        latest = [rows(column) for column in spec.columns]
        return latest, [rows(column) if column.published else None for column in spec.columns]
    except (MemoryError, ValueError, OverflowError) as error:
        raise OutOfMemoryError(f"{words}, which could not be had") from error


def agents_alive(spec: Any, latest: list[Array]) -> Array:
    """(worlds, agents) bool view, who lives; of all entities in a model without agents."""
    alive = latest[0].view(bool)
    group = spec.agents
    return alive if group is None else alive[:, group.first : group.first + group.count]


@dataclass(frozen=True)
class Views:
    """What the caller reads and writes, without copies."""

    columns: Mapping[str, Array]
    seen: Mapping[str, Array]
    totals: Mapping[str, FloatArray]
    roles: Mapping[str, Array]


def views(spec: Any, latest: list[Array], seen: list[Array | None]) -> Views:
    """The views of an engine's arrays."""
    columns = {c.name: a for c, a in zip(spec.columns, latest, strict=True)}
    published = {}
    for c, a in zip(spec.columns, seen, strict=True):
        if a is not None:
            published[c.name] = a.view()
            published[c.name].flags.writeable = False
    roles = {c.role: a for c, a in zip(spec.columns, latest, strict=True) if c.role}
    if "terminated" in roles:
        roles["terminated"] = roles["terminated"].view(bool)
    roles["alive"] = agents_alive(spec, latest)
    return Views(
        Named("column", columns), Named("published column", published), Totals(spec, latest), roles
    )


def action_check(model: EventModel, latest: list[Array], strict: bool) -> ActionCheck | None:
    """The rules for actions; None for a model without any."""
    spec = model.spec
    column = spec.role("action")
    if column is None or spec.agents is None:
        return None
    make = getattr(model, "action_space", None)
    try:
        space = make(model.p) if make is not None else None
    except Exception as error:
        raise ConfigError(f"{spec.name}.action_space could not be computed: {error!r}") from error
    return ActionCheck(
        latest[spec.column_index(column.name)],
        agents_alive(spec, latest),
        spec.agents.name,
        space,
        strict,
    )


def _addresses(owner: str, native: Any) -> dict[str, int]:
    """Name of a sweep or kind -> address, or ConfigError."""
    if native is None:
        return {}
    if not isinstance(native, Mapping):
        raise ConfigError(
            f"Engine({owner}): native={native!r}: expected a dict of a sweep's or kind's name to "
            f"the address of a C function, got {type(native).__name__}"
        )
    for name, address in native.items():
        if isinstance(address, bool) or not isinstance(address, int) or not 0 < address < 2**64:
            raise ConfigError(
                f"Engine({owner}): native={{{name!r}: {address!r}}}: expected the address of a C "
                "function, a whole number above 0"
            )
    return dict(native)


def core(
    model: EventModel, worlds: int, latest: list[Array], seen: list[Array | None],
    pool: PoolConfig, compiled: bool, debug: bool, native: Mapping[str, int] | None,
) -> Any:  # fmt: skip
    """The native core with the model's compiled methods, or plain Python."""
    spec = model.spec
    native = _addresses(spec.name, native)
    methods = {s.name: s.method for s in spec.sweeps} | {k.name: k.method for k in spec.kinds}
    for name in native:
        if name not in methods:
            near = difflib.get_close_matches(name, methods, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(methods)}"
            raise ConfigError(
                f"Engine({spec.name}): native={{{name!r}: ...}} names no sweep or kind; {hint}"
            )
    if not compiled:
        if native:
            raise ConfigError(f"Engine({spec.name}): native functions need compiled=True")
        return ReferenceCore(spec, worlds, latest, seen)
    from .core import NativeCore

    sweeps = [native.get(s.name, 0) for s in spec.sweeps]
    handlers = [native.get(k.name, 0) for k in spec.kinds]
    code = None
    if any(method is not None and name not in native for name, method in methods.items()):
        from .compile import compile_model

        code = compile_model(model, debug=debug)
        sweeps = [mine or made for mine, made in zip(sweeps, code.sweeps, strict=True)]
        handlers = [mine or made for mine, made in zip(handlers, code.handlers, strict=True)]
    return NativeCore(spec, worlds, latest, seen, sweeps, handlers, pool, keep=code)
