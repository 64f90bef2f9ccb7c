"""A model run as plain Python over one heap: the debugging form, and the tests' oracle.

There is one global order, (time, round, entity, source, sequence), and no parallelism at all; the
results are those of the native core. It is some hundred times slower, and every access of a
method is checked (see :mod:`seer.plain`).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from . import faults
from .cells import Cells
from .errors import ModelError
from .events import EVENT, NARROW_BYTES, WIDE_BYTES
from .faults import Fault
from .plain import Context, Running, event_view, state, world_key
from .totals import reduce_rows

_ALIVE, _ACTED, _DRAWS = 0, 1, 2

#: An event in the heap: time, round, target, source, sequence, kind, payload.
Event = tuple[int, int, int, int, int, int, bytes]


class _Totals:
    """`s.total` of one world; the values are replaced where the engine publishes."""


class World:
    """One copy of the environment: its state, its pending events and its clock.

    Args:
        spec: the model's resolved description.
        index: which world.
        latest, seen: (count, ...) arrays by column; None for what is not published.
    """

    def __init__(self, spec: Any, index: int, latest: list[Any], seen: list[Any]) -> None:
        self.spec, self.index = spec, index
        self.latest, self.seen = latest, seen
        self.alive, self.acted, self.draws = latest[_ALIVE], latest[_ACTED], latest[_DRAWS]
        self.run = Running()
        self.totals = _Totals()
        self.ctx = Context(self, self.run)
        self.s = state(self.run, spec, latest, seen, self.totals)
        self.faults: list[tuple[Fault, BaseException | None]] = []
        self.counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.per_kind = [0] * len(spec.kinds)
        # The width of a window, as the calendar of the native core has it (shard.h).
        width = min(spec.lookahead, spec.step)
        self._inverse = (2**64 - 1) // width + 1 if width > 1 else 0
        self.seed = self.episode = self.key = self.steps = 0
        self._empty()

    def _empty(self) -> None:
        self.heap: list[Event] = []
        self.lengths = [0] * self.spec.entities
        self.sequences = [0] * self.spec.entities
        self._crowded: set[int] = set()
        self._stopped: set[int] = set()
        self._cells: list[Cells | None] = [None] * len(self.spec.grids)
        self._handled = 0

    # ---- reset and step --------------------------------------------------------------------

    def reset(self, seed: int, episode: int) -> None:
        """Initial values, no events, tick 0; then the reset sweeps."""
        self._empty()
        self.faults.clear()
        self.seed, self.episode, self.steps = seed, episode, 0
        self.key = world_key(seed, episode)
        for column, rows in zip(self.spec.columns, self.latest, strict=True):
            rows[...] = column.initial
        self.acted[...] = self.alive
        self._publish()
        sweeps = [(n, s) for n, s in enumerate(self.spec.sweeps) if s.on_reset]
        first = [item for item in sweeps if not item[1].on_step]
        then = sorted((item for item in sweeps if item[1].on_step), key=lambda item: item[1].offset)
        for number, sweep in first + then:
            self._sweep(number, sweep, 0)
            if self.faults:
                return

    def step(self) -> None:
        """One step: its sweeps in order, and between them windows."""
        spec = self.spec
        begin = self.steps * spec.step
        self._handled = 0
        self.acted[...] = self.alive
        self._publish()
        sweeps = [(n, s) for n, s in enumerate(spec.sweeps) if s.on_step]
        for number, sweep in sorted(sweeps, key=lambda item: item[1].offset):
            self._windows(begin + sweep.offset)
            if not self.faults:
                self._sweep(number, sweep, begin + sweep.offset)
            if self.faults:
                return
        self._windows(begin + spec.step)
        self.steps += 1

    def _sweep(self, number: int, sweep: Any, now: int) -> None:
        self._publish()
        run = self.run
        run.now, run.round, run.writes, run.method = now, 0, sweep.writes, sweep.method
        run.kind, run.sweep, run.event = faults.NONE, number, None
        wanted = {"alive": self.alive, "acted": self.acted}.get(sweep.include)
        for entity in range(sweep.group.first, sweep.group.first + sweep.group.count):
            if wanted is None or wanted[entity]:
                run.entity = entity
                self._call(sweep.method.fn, np.int64(entity))
        self.counters["sweeps"] += 1
        self._publish()
        self._at_rest(now)

    def _windows(self, end: int) -> None:
        """All events before `end`, window by window."""
        while self.heap and self.heap[0][0] < end and not self.faults:
            time, turn = self.heap[0][:2]
            if self.spec.lookahead == 0:
                # One round: what it sends for this instant belongs to the next.
                while self.heap and self.heap[0][:2] == (time, turn):
                    self._handle(heapq.heappop(self.heap))
            else:
                stop = time = min(end, self._window_end(time))
                while self.heap and self.heap[0][0] < stop:
                    self._handle(heapq.heappop(self.heap))
            self.counters["windows"] += 1
            self.counters["rounds"] += self.spec.lookahead == 0 and turn > 0
            self._at_rest(time)

    def _window_end(self, time: int) -> int:
        if not self._inverse:
            return time + 1
        bucket = time * self._inverse >> 64
        return -(-(bucket + 1 << 64) // self._inverse)

    def _handle(self, event: Event) -> None:
        time, turn, entity, _, _, number, _ = event
        if entity in self._stopped:
            return  # its lane has failed in this window; the others go on
        self.lengths[entity] -= 1
        self._handled += 1
        kind = self.spec.kinds[number]
        if kind.method is None or not (self.alive[entity] or kind.even_if_dead):
            self.counters["unhandled"] += 1
            return
        self.counters["handled"] += 1
        self.per_kind[number] += 1
        run = self.run
        run.now, run.round, run.entity, run.event = time, turn, entity, event
        run.writes, run.method, run.kind, run.sweep = (
            self.spec.handler_writes,
            kind.method,
            number,
            faults.NONE,
        )
        view = event_view(kind, self.ctx._layouts[number], event)
        if not self._call(kind.method.fn, np.int64(entity), view):
            self._stopped.add(entity)

    def _call(self, fn: Any, *args: Any) -> bool:
        """Run a method; whether it succeeded."""
        run = self.run
        run.refused, cause = None, None
        try:
            with np.errstate(all="ignore"):  # compiled code wraps and divides silently
                fn(self.ctx, self.s, *args)
        except ModelError:
            raise  # a broken rule of models, not a fault of this run
        except Exception as error:
            cause = error
            run.refused = run.refused or self._failed()
        if run.refused is None:
            return True
        self.faults.append((run.refused, cause))
        return False

    def _failed(self) -> Fault:
        """A method raised: about the event that it was handling, or the row of its sweep."""
        if self.run.event is None:
            return self.fault_now(faults.EHANDLER, sequence=0)
        time, _, entity, source, sequence, _, _ = self.run.event
        return self.fault_now(
            faults.EHANDLER, source=source, sequence=sequence, target=entity, event_time=time
        )

    # ---- events ----------------------------------------------------------------------------

    def push(self, when: int, turn: int, target: int, source: int, kind: int, data: bytes) -> None:
        """Make an event pending; the source's next sequence number goes with it."""
        sequence = self.sequences[source]
        self.sequences[source] = sequence + 1
        self.counters["sent"] += 1
        heapq.heappush(self.heap, (when, turn, target, source, sequence, kind, data))
        self.lengths[target] += 1
        if self.lengths[target] > self.spec.lane_capacity:
            self._crowded.add(target)

    def fault_now(self, code: int, **more: Any) -> Fault:
        """A fault of the entity that is running."""
        run = self.run
        about = {
            "kind": run.kind, "handler": run.kind, "source": run.entity,
            "sequence": self.sequences[run.entity], **more,
        }  # fmt: skip
        return Fault(
            code=code, world=self.index, entity=run.entity, sweep=run.sweep, round=run.round,
            time=run.now, **about,
        )  # fmt: skip

    def _at_rest(self, now: int) -> None:
        """Between windows: are the bounds kept?"""
        self._stopped.clear()
        crowded, self._crowded = self._crowded, set()
        for entity in sorted(crowded):
            if self.lengths[entity] > self.spec.lane_capacity:
                mine = sorted(event for event in self.heap if event[2] == entity)
                refused = mine[self.spec.lane_capacity]  # the first there is no room for
                self._over(faults.ELANE, refused[0], self.spec.lane_capacity, refused)
        if self.faults:
            return
        if len(self.heap) > self.spec.world_capacity:
            self._over(faults.EWORLD, now, self.spec.world_capacity, None)
        elif self._handled > self.spec.step_capacity:
            self._over(faults.ESTEP, now, self.spec.step_capacity, None)

    def _over(self, code: int, now: int, limit: int, refused: Event | None) -> None:
        more: dict[str, Any] = {}
        if refused is not None:
            time, turn, entity, source, sequence, kind, _ = refused
            more = {
                "entity": entity, "target": entity, "source": source, "sequence": sequence,
                "kind": kind, "round": turn, "event_time": time,
            }  # fmt: skip
        self.faults.append((Fault(code, world=self.index, time=now, limit=limit, **more), None))

    # ---- what is published -----------------------------------------------------------------

    def _publish(self) -> None:
        for latest, seen in zip(self.latest, self.seen, strict=True):
            if seen is not None:
                seen[...] = latest
        for total in self.spec.totals:
            column = self.spec.columns[total.column]
            value = reduce_rows(total, column, self.latest[total.column][None], self.alive[None])
            setattr(self.totals, total.name, np.float64(value[0]))
        self._cells = [None] * len(self.spec.grids)

    def grid(self, number: int) -> Cells:
        """A grid over what was last published, made when first asked for."""
        cells = self._cells[number]
        if cells is None:
            grid = self.spec.grids[number]
            cells = Cells(grid, self.seen[grid.column], self.seen[_ALIVE])
            self._cells[number] = cells
        return cells


COUNTERS = (
    "handled", "unhandled", "sent", "mailed", "windows", "rounds", "sweeps", "shared", "steals",
    "cas_retries", "spins", "sleeps", "wakes",
)  # fmt: skip


class ReferenceCore:
    """The worlds of an engine, with the calls of the native core.

    Args:
        spec: the model's resolved description.
        worlds: how many.
        latest, seen: (worlds, count, ...) arrays by column; None for what is not published.
    """

    def __init__(self, spec: Any, worlds: int, latest: list[Any], seen: list[Any]) -> None:
        self._spec = spec
        self._worlds = [
            World(spec, w, [a[w] for a in latest], [a if a is None else a[w] for a in seen])
            for w in range(worlds)
        ]
        self._fault = Fault(faults.OK)
        self.cause: BaseException | None = None

    def reset(self, mask: Any, seeds: Any, episodes: Any) -> int:
        chosen = [w for w in self._worlds if mask is None or mask[w.index]]
        for world in chosen:
            world.reset(int(seeds[world.index]), int(episodes[world.index]))
        return self._outcome(chosen)

    def step(self, mask: Any) -> int:
        chosen = [w for w in self._worlds if mask is None or mask[w.index]]
        for world in chosen:
            world.step()
        return self._outcome(chosen)

    def _outcome(self, chosen: list[World]) -> int:
        found = [item for world in chosen for item in world.faults]
        if not found:
            return faults.OK
        fault, self.cause = min(found, key=lambda item: item[0].key())
        self._fault = Fault(**{**vars(fault), "others": len(found) - 1})
        return -fault.code

    def proceed(self) -> int:
        return faults.OK  # it never pauses: Python runs signals while it works

    def abandon(self) -> None:
        """Nothing to give up: the next reset empties every world."""

    def set_pool(self, config: Any) -> None:
        """Any pool is as good: there is one thread."""

    def close(self) -> None:
        self._worlds = []

    def fault(self) -> Fault:
        return self._fault

    def tick(self, world: int) -> int:
        return int(self._worlds[world].steps * self._spec.step)

    def steps(self, world: int) -> int:
        return self._worlds[world].steps

    def counters(self) -> tuple[dict[str, int], list[int]]:
        """The sums over all worlds, and the events consumed of each kind."""
        sums = {name: sum(w.counters[name] for w in self._worlds) for name in COUNTERS}
        kinds = [sum(column) for column in zip(*(w.per_kind for w in self._worlds), strict=True)]
        return sums, kinds

    def memory(self) -> int:
        """A rough count: the events that are pending, at some 200 bytes each."""
        return sum(200 * len(w.heap) for w in self._worlds)

    def export(self, world: int) -> tuple[Any, Any, Any, Any]:
        """Pending events lane by lane in order, wide payloads, lane lengths, sequences."""
        w = self._worlds[world]
        pending = sorted(w.heap, key=lambda e: (e[2], e[0], e[1], e[3], e[4]))
        events = np.zeros(len(pending), EVENT)
        wide = np.zeros((len(pending), WIDE_BYTES), np.uint8)
        for k, (time, turn, target, source, sequence, kind, data) in enumerate(pending):
            payload = 0
            if len(data) == NARROW_BYTES:
                payload = int.from_bytes(data, "little")
            else:
                wide[k] = np.frombuffer(data, np.uint8)
            events[k] = (time, source, sequence, target, kind, turn, payload)
        return events, wide, np.array(w.lengths, np.uint32), np.array(w.sequences, np.uint32)

    def load(
        self, world: int, events: Any, wide: Any, lengths: Any, sequences: Any,
        steps: int, seed: int, episode: int,
    ) -> int:  # fmt: skip
        """Replace a world's pending events and clock."""
        w = self._worlds[world]
        w._empty()
        w.faults.clear()
        w.steps, w.seed, w.episode, w.key = steps, seed, episode, world_key(seed, episode)
        w.sequences = [int(n) for n in sequences]
        w.lengths = [int(n) for n in lengths]
        for k, event in enumerate(events):
            time, source, sequence, target, kind, turn, payload = event.item()
            is_wide = self._spec.kinds[kind].wide
            data = wide[k].tobytes() if is_wide else payload.to_bytes(NARROW_BYTES, "little")
            w.heap.append((time, turn, target, source, sequence, kind, data))
        heapq.heapify(w.heap)
        return faults.OK
