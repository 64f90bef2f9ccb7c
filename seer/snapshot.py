"""Saving and restoring an engine's state: everything that decides what happens next.

The arrays are the same to the byte on every pool and for the compiled and the plain form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SnapshotError
from .events import EVENT, WIDE_BYTES
from .faults import TIME_MAX
from .types import Array, whole

if TYPE_CHECKING:
    from .engine import Engine

FORMAT = 1
_PARTS = ("seeds", "episodes", "steps", "lengths", "sequences", "events", "wide")


def take(engine: Engine) -> dict[str, Any]:
    """The state of an engine between two steps.

    Returns:
        "format", "model", "hash", "worlds"; "columns" and "seen": name -> (worlds, count, ...);
        "seeds", "episodes", "steps": (worlds,); "lengths", "sequences": (worlds, entities) uint32,
        pending events of a lane and events that its entity has sent; "events": world by world and
        lane by lane, in order; "wide": (events, 40) uint8, payloads of the wide kinds.
    """
    spec, core = engine.spec, engine._core
    parts = [core.export(world) for world in range(engine.worlds)]
    events, wide, lengths, sequences = (list(part) for part in zip(*parts, strict=True))
    every = np.concatenate(events)
    beside = np.concatenate(wide)
    is_wide = np.array([kind.wide for kind in spec.kinds] or [False])[every["kind"]]
    every["payload"][is_wide] = 0  # where the core keeps it is no part of the state
    beside[~is_wide] = 0
    return {
        "format": FORMAT,
        "model": spec.name,
        "hash": spec.hash,
        "worlds": engine.worlds,
        "columns": {name: array.copy() for name, array in engine.columns.items()},
        "seen": {name: array.copy() for name, array in engine.seen.items()},
        "seeds": engine.seeds.copy(),
        "episodes": engine.episodes.copy(),
        "steps": np.array([core.steps(world) for world in range(engine.worlds)], np.int64),
        "lengths": np.stack(lengths),
        "sequences": np.stack(sequences),
        "events": every,
        "wide": beside,
    }


def digest(state: Mapping[str, Any]) -> str:
    """A hash of a state; equal states have equal ones."""
    h = hashlib.sha256(repr([state[k] for k in ("format", "model", "hash", "worlds")]).encode())
    for group in ("columns", "seen"):
        for name, array in state[group].items():
            h.update(name.encode())
            h.update(np.ascontiguousarray(array).tobytes())
    for name in _PARTS:
        h.update(np.ascontiguousarray(state[name]).tobytes())
    return h.hexdigest()


def restore(engine: Engine, state: Mapping[str, Any]) -> None:
    """Check a state, then put it in place."""
    spec, worlds = engine.spec, engine.worlds
    where = f"{engine._name}.load_state_dict()"

    def expect(good: bool, what: str, wanted: Any, got: Any) -> None:
        if not good:
            raise SnapshotError(f"{where}: expected {what} {wanted}, got {got}")

    if not isinstance(state, Mapping):
        raise SnapshotError(f"{where}: expected a dict of state_dict(), got {type(state).__name__}")
    missing = {"format", "model", "hash", "worlds", "columns", "seen", *_PARTS} - set(state)
    expect(not missing, "a dict of state_dict() with the entries", sorted(missing), "none of them")
    expect(whole(state["format"]) == FORMAT, "a state of format", FORMAT, state["format"])
    expect(_same(state["model"], spec.name), "a state of model", spec.name, state["model"])
    expect(
        _same(state["hash"], spec.hash),
        f"a state of this very {spec.name} (code, parameters), with hash",
        spec.hash[:12],
        str(state["hash"])[:12],
    )
    expect(whole(state["worlds"]) == worlds, "worlds =", worlds, state["worlds"])
    columns: dict[str, dict[str, Any]] = {}
    for group, mine in (("columns", engine.columns), ("seen", engine.seen)):
        given = state[group]
        expect(isinstance(given, Mapping), f"{group} to be", "a dict", type(given).__name__)
        expect(set(given) == set(mine), f"{group} named", sorted(mine), sorted(map(str, given)))
        columns[group] = {
            name: _formed(where, f"{group}[{name!r}]", given[name], array.shape, array.dtype)
            for name, array in mine.items()
        }
    each, lanes = (worlds,), (worlds, spec.entities)
    count = len(np.atleast_1d(_array(where, "events", state["events"])))
    parts = {
        name: _formed(where, name, state[name], shape, np.dtype(dtype))
        for name, shape, dtype in (
            ("seeds", each, np.uint64), ("episodes", each, np.uint64), ("steps", each, np.int64),
            ("lengths", lanes, np.uint32), ("sequences", lanes, np.uint32),
            ("events", (count,), EVENT), ("wide", (count, WIDE_BYTES), np.uint8),
        )
    }  # fmt: skip
    _check_events(where, spec, parts)

    for name, array in engine.columns.items():
        array[...] = columns["columns"][name]
    for name, view in zip((c.name for c in spec.columns), engine._seen, strict=True):
        if view is not None:
            view[...] = columns["seen"][name]
    engine.seeds[...] = parts["seeds"]
    engine.episodes[...] = parts["episodes"]
    ends = np.cumsum(parts["lengths"].sum(axis=1, dtype=np.int64))
    loaded: list[tuple[Any, ...]] = []
    for world in range(worlds):
        span = slice(int(ends[world - 1]) if world else 0, int(ends[world]))
        loaded.append(
            (
                np.ascontiguousarray(parts["events"][span]),
                np.ascontiguousarray(parts["wide"][span]),
                np.ascontiguousarray(parts["lengths"][world]),
                np.ascontiguousarray(parts["sequences"][world]),
                int(parts["steps"][world]),
                int(parts["seeds"][world]),
                int(parts["episodes"][world]),
            )
        )
    engine._load_worlds(loaded)


def _same(given: Any, text: str) -> bool:
    """Whether it is this text; arrays and the like are not."""
    return isinstance(given, str) and given == text


def _array(where: str, name: str, given: Any) -> Array:
    try:
        return np.asarray(given)
    except Exception as error:  # whatever an array of another library raises
        raise SnapshotError(f"{where}: expected {name} to be an array, got {error}") from error


def _formed(where: str, name: str, given: Any, shape: Any, dtype: Any) -> Array:
    """The array, of this shape and dtype."""
    array = _array(where, name, given)
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise SnapshotError(
            f"{where}: expected {name} of shape {tuple(shape)} and dtype {dtype}, "
            f"got {array.shape} and {array.dtype}"
        )
    return array


def _check_events(where: str, spec: Any, state: Mapping[str, Any]) -> None:
    """Are the pending events possible, and in order?"""
    events, lengths = state["events"], state["lengths"]
    total = int(lengths.sum(dtype=np.int64))
    if total != len(events):
        raise SnapshotError(f"{where}: expected {total} events as lengths say, got {len(events)}")
    each = lengths.sum(axis=1, dtype=np.int64)
    for most, bound in ((lengths.max(initial=0), "lane_capacity"), (each.max(), "world_capacity")):
        limit = getattr(spec, bound)
        if most > limit:
            raise SnapshotError(
                f"{where}: expected at most {bound}={limit} pending events, got {most}"
            )
    most_steps = TIME_MAX // spec.step
    odd = (state["steps"] < 0) | (state["steps"] > most_steps)
    if odd.any():
        raise SnapshotError(
            f"{where}: expected steps from 0 to {most_steps}, got {state['steps'][odd][0]}"
        )
    if not total:
        return
    worlds, entities = lengths.shape
    lane = np.repeat(np.arange(worlds * entities), lengths.ravel())
    now = (state["steps"] * spec.step)[lane // entities]
    keys = [events[name].astype(np.int64) for name in ("time", "round", "source", "sequence")]
    before, same = np.zeros(total - 1, bool), lane[1:] == lane[:-1]
    equal = np.ones(total - 1, bool)
    for key in keys:
        before |= equal & (key[:-1] < key[1:])
        equal &= key[:-1] == key[1:]
    sent = state["sequences"][lane // entities, np.minimum(events["source"], entities - 1)]
    for wrong, what in (
        (events["target"] != lane % entities, "an event lies in another entity's lane"),
        (events["source"] >= entities, "an event's source does not exist"),
        (events["kind"] >= len(spec.kinds), "an event's kind does not exist"),
        (events["time"] < now, "an event lies in the past"),
        (events["time"] > TIME_MAX, "an event lies beyond the last tick"),
        (events["round"] > spec.max_rounds, "an event's round is beyond max_rounds"),
        (events["sequence"] >= sent, "an event's source has not sent that many"),
        (same & ~before, "a lane's events are not in order"),
    ):
        if wrong.any():
            raise SnapshotError(f"{where}: the state is damaged: {what} ({int(wrong.sum())} such)")
