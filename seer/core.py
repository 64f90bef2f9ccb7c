"""The native core as an object: a model described to it, and its calls.

The calls are those of :class:`seer.reference.ReferenceCore`, so that an engine drives either.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from . import faults
from ._native import ffi, lib
from .errors import NativeError
from .events import EVENT, WIDE_BYTES
from .faults import Fault
from .layout import stored
from .types import PoolConfig

_OPS = ("sum", "mean", "min", "max", "argmin", "argmax")  # in the order of SEER_SUM ...
_DTYPES = {"u1": lib.SEER_U8, "i4": lib.SEER_I32, "i8": lib.SEER_I64, "f4": lib.SEER_F32,
           "f8": lib.SEER_F64}  # fmt: skip
_FAULT_FIELDS = tuple(Fault.__dataclass_fields__)


def _pool(config: PoolConfig, worlds: int) -> Any:
    grain = config.grain
    if config.axis == "worlds" and not grain:
        # Some 32 claims a thread: enough to even out the ends, few enough to cost nothing.
        grain = max(1, worlds // (32 * config.threads))
    return ffi.new(
        "seer_pool_config *",
        {
            "threads": config.threads,
            "axis": lib.SEER_AXIS_LANES if config.axis == "lanes" else lib.SEER_AXIS_WORLDS,
            "grain": grain,
            "spin_ns": round(config.spin_us * 1000),
            "pin": config.pin,
            "share": config.share,
            "shuffle": config.shuffle,
        },
    )


def _bits(value: bool | int | float) -> int:
    """A parameter as the 8 bytes that handlers read."""
    layout = "<d" if isinstance(value, float) else "<q"
    return int.from_bytes(struct.pack(layout, value), "little")


class NativeCore:
    """An engine of the native core.

    Args:
        spec: the model's resolved description.
        worlds: how many.
        latest, seen: (worlds, count, ...) arrays by column, 64-byte aligned; None for what is not
            published. Kept alive here as long as the core may touch them.
        sweeps: address of each sweep's function.
        handlers: address of each kind's handler, 0 for none.
        pool: the pool configuration.
        keep: whatever else must live as long, such as compiled code.
    """

    def __init__(
        self, spec: Any, worlds: int, latest: list[Any], seen: list[Any],
        sweeps: list[int], handlers: list[int], pool: PoolConfig, keep: Any = None,
    ) -> None:  # fmt: skip
        self._spec, self._worlds = spec, worlds
        self._handle: Any = None
        self._keep = (latest, seen, [column.initial for column in spec.columns], keep)
        described = _Description(spec, worlds, latest, seen, sweeps, handlers)
        error = ffi.new("int *")
        handle = lib.seer_engine_new(described.model, _pool(pool, worlds), error)
        if handle == ffi.NULL:
            if abs(error[0]) == lib.SEER_ENOMEM:
                raise faults.exception(spec, Fault(lib.SEER_ENOMEM))
            raise NativeError(
                f"the native core refused {spec.name} with {worlds} worlds on {pool}: "
                f"{_words(error[0])}",
                code=abs(error[0]),
            )
        self._handle = handle
        self._fault = ffi.new("seer_fault *")

    def reset(self, mask: Any, seeds: Any, episodes: Any) -> int:
        return int(
            lib.seer_engine_reset(
                self._handle,
                ffi.NULL if mask is None else ffi.from_buffer("uint8_t[]", mask),
                ffi.from_buffer("uint64_t[]", seeds),
                ffi.from_buffer("uint64_t[]", episodes),
            )
        )

    def step(self, mask: Any) -> int:
        chosen = ffi.NULL if mask is None else ffi.from_buffer("uint8_t[]", mask)
        code: int = lib.seer_engine_step(self._handle, chosen)
        return code

    def proceed(self) -> int:
        code: int = lib.seer_engine_continue(self._handle)
        return code

    def abandon(self) -> None:
        lib.seer_engine_abandon(self._handle)

    def mirror(self, column: int, copy: Any, present: Any = None, filler: Any = None) -> int:
        """Have what takes part in a step or reset copy its rows of a column.

        Args:
            column: its number.
            copy: laid out as the column; None: no more.
            present: a byte for each row, 0: it gets `filler` instead; None: all are copied.
            filler: one row.
        """
        given = copy, present, filler
        self._mirrored = given  # kept alive
        at = (ffi.NULL if a is None else ffi.cast("void *", a.ctypes.data) for a in given)
        return int(lib.seer_engine_mirror(self._handle, column, *at))

    def set_pool(self, config: PoolConfig) -> int:
        return int(lib.seer_engine_set_pool(self._handle, _pool(config, self._worlds)))

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.seer_engine_free(handle)

    def fault(self) -> Fault:
        lib.seer_engine_fault(self._handle, self._fault)
        return Fault(**{name: getattr(self._fault, name) for name in _FAULT_FIELDS})

    cause: BaseException | None = None  # what a compiled handler raised is not known

    def tick(self, world: int) -> int:
        return int(lib.seer_engine_tick(self._handle, world))

    def steps(self, world: int) -> int:
        return int(lib.seer_engine_steps(self._handle, world))

    def counters(self) -> tuple[dict[str, int], list[int]]:
        out = ffi.new("seer_counters *")
        kinds = ffi.new("uint64_t[]", max(len(self._spec.kinds), 1))
        lib.seer_engine_counters(self._handle, out, kinds)
        names = [name for name, _ in ffi.typeof("seer_counters").fields]
        return {n: int(getattr(out, n)) for n in names}, list(kinds)[: len(self._spec.kinds)]

    def memory(self) -> int:
        return int(lib.seer_engine_memory(self._handle))

    def export(self, world: int) -> tuple[Any, Any, Any, Any]:
        """Pending events lane by lane in order, wide payloads, lane lengths, sequences."""
        count = int(lib.seer_engine_pending(self._handle, world))
        events = np.zeros(count, EVENT)
        wide = np.zeros((count, WIDE_BYTES), np.uint8)
        lengths = np.zeros(self._spec.entities, np.uint32)
        sequences = np.zeros(self._spec.entities, np.uint32)
        lib.seer_engine_export(self._handle, world, *_record(events, wide, lengths, sequences))
        return events, wide, lengths, sequences

    def load(
        self, world: int, events: Any, wide: Any, lengths: Any, sequences: Any,
        steps: int, seed: int, episode: int,
    ) -> int:  # fmt: skip
        """Replace a world's pending events and clock."""
        record = _record(events, wide, lengths, sequences)
        return int(lib.seer_engine_import(self._handle, world, *record, steps, seed, episode))

    def words(self, code: int) -> str:
        return _words(code)


def _record(events: Any, wide: Any, lengths: Any, sequences: Any) -> tuple[Any, ...]:
    """A world's pending events as the core takes and gives them; the memory is the arrays'."""
    return (
        ffi.from_buffer("seer_event[]", events.view(np.uint8)),
        ffi.from_buffer("char[]", wide),
        ffi.from_buffer("uint32_t[]", lengths),
        ffi.from_buffer("uint32_t[]", sequences),
    )


def _words(code: int) -> str:
    return bytes(ffi.string(lib.seer_strerror(abs(code)))).decode()


class _Description:
    """A `seer_model` in C; the core copies it, so it need not live longer than the call."""

    def __init__(
        self, spec: Any, worlds: int, latest: list[Any], seen: list[Any],
        sweeps: list[int], handlers: list[int],
    ) -> None:  # fmt: skip
        self._keep: list[Any] = []
        groups: dict[tuple[int, int], int] = {}

        def group(g: Any) -> int:
            return groups.setdefault((g.first, g.count), len(groups))

        def address(array: Any) -> Any:
            return ffi.NULL if array is None else ffi.cast("void *", array.ctypes.data)

        include_flags = {True: lib.SEER_SWEEP_ON_STEP, False: 0}
        columns = [
            {
                "latest": address(latest[k]),
                "seen": address(seen[k]),
                "initial": address(column.initial),
                "row_bytes": column.row_bytes,
                "group": group(column.group),
            }
            for k, column in enumerate(spec.columns)
        ]
        kinds = [
            {
                "handler": ffi.cast("seer_handler_fn", handlers[k]),
                "flags": (lib.SEER_KIND_EVEN_IF_DEAD if kind.even_if_dead else 0)
                | (lib.SEER_KIND_WIDE if kind.wide else 0),
            }
            for k, kind in enumerate(spec.kinds)
        ]
        steps = [
            {
                "fn": ffi.cast("seer_sweep_fn", sweeps[k]),
                "offset": sweep.offset,
                "writes": sweep.writes,
                "group": group(sweep.group),
                "flags": include_flags[sweep.on_step]
                | (lib.SEER_SWEEP_ON_RESET if sweep.on_reset else 0),
            }
            for k, sweep in enumerate(spec.sweeps)
        ]
        totals = [
            {
                "op": _OPS.index(total.op),
                "column": total.column,
                "dtype": _DTYPES[spec.columns[total.column].dtype.str[1:]],
                "item": total.item,
                "alive_only": total.alive_only,
            }
            for total in spec.totals
        ]
        grids = [
            {
                "column": grid.column,
                "group": group(grid.group),
                "components": grid.components,
                "low": list(grid.low),
                "high": list(grid.high),
                "cell": grid.cell,
            }
            for grid in spec.grids
        ]
        self.model = ffi.new("seer_model *")
        m = self.model
        m.layout, m.worlds, m.entities = lib.SEER_LAYOUT, worlds, spec.entities
        m.group, m.groups = self._array(
            "seer_group", [{"first": first, "count": count} for first, count in groups]
        )
        m.column, m.columns = self._array("seer_column", columns)
        m.kind, m.kinds = self._array("seer_kind", kinds)
        m.sweep, m.sweeps = self._array("seer_sweep", steps)
        m.total, m.totals = self._array("seer_total", totals)
        m.grid, m.grids = self._array("seer_grid", grids)
        m.param, m.params = self._array("uint64_t", [_bits(v) for v in stored(spec)])
        m.handler_writes = spec.handler_writes
        m.lookahead, m.step, m.seconds_per_tick = spec.lookahead, spec.step, spec.tick
        m.max_rounds, m.lane_capacity = spec.max_rounds, spec.lane_capacity
        m.world_capacity, m.step_capacity = spec.world_capacity, spec.step_capacity

    def _array(self, kind: str, items: list[Any]) -> tuple[Any, int]:
        if not items:
            return ffi.NULL, 0
        made = ffi.new(f"{kind}[]", items)
        self._keep.append(made)
        return made, len(items)
