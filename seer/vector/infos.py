"""Infos of many environments in Gymnasium's form: an array for each key, a mask beside it.

A value ``v`` that some environments report under the key ``k`` becomes an array ``infos[k]`` with
a row for each environment and a mask ``infos["_k"]`` that tells which of them did. Rows without a
value hold 0 in arrays of numbers and None in arrays of objects. A dict as value becomes a dict of
such pairs. Values keep their kind: numbers that no common number type holds without loss, bools
among numbers, arrays of different shapes and everything else are stored as objects.
"""

from __future__ import annotations

import copy
import datetime
import fractions
import uuid
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..errors import ResultError
from ..types import Array
from .blocks import scatter
from .columns import Cells, objects, spread
from .contract import OBSERVED, Side, VecSpec
from .frames import Frame

__all__ = ["batch_infos", "copy_info", "final_entries", "flat_final_entries", "flat_infos"]

_PLAIN = frozenset([
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented),
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, fractions.Fraction,
    uuid.UUID, range, type, type(len), type(lambda: None),
    *(np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]),
    np.bool_, np.str_, np.bytes_, np.datetime64, np.timedelta64,
])  # fmt: skip
"""Types whose values can't be changed: they are their own copies."""


def copy_info(value: Any) -> Any:
    """A copy that shares nothing with `value` that could be changed.

    An object that can't be copied (a lock, an open file) is passed on as it is.
    """
    try:
        return _copied(value)
    except RecursionError:  # it holds itself
        return copy.deepcopy(value)


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        out = value.copy()
        for key, item in out.items():
            if type(item) not in _PLAIN:
                out[key] = _copied(item)
        return out
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    if kind is list:
        return [item if type(item) in _PLAIN else _copied(item) for item in value]
    if kind is tuple:
        return tuple([_copied(item) for item in value])
    try:
        return copy.deepcopy(value)
    except RecursionError:
        raise
    except Exception:  # whatever the object's own way of being copied raises
        return value


def batch_infos(
    spec: VecSpec, side: Side, envs: Sequence[int] | Array | None = None, frame: Frame | None = None
) -> dict[str, Any]:
    """The infos of the layouts dict and stacked.

    Args:
        spec: of the vector.
        side: of the step; its infos become the caller's.
        envs: (rows,) the environments that the rows stand for; None: all in order.
        frame: of the step: where an episode ended in same-step mode, `final_entries` are added.

    Returns:
        For each agent ``{key: array (rows, ...), "_key": mask (rows,) bool}``, empty where
        nothing was reported. What was reported under a name that is no agent (``__common__``)
        stands beside the agents: a dict of such pairs if its values are dicts, otherwise an array
        (rows, ...); in both cases with the mask ``"_" + name`` at the same level.

    Raises:
        ResultError: what an environment reported for an agent is not a dict.
    """
    if side.columns:
        out = _from_columns(spec, side, envs)
    elif side.infos:
        out = _batched(spec, side.infos, envs, side.slots)
    else:
        out = {agent: {} for agent in spec.agents}
    if frame is not None and frame.final_seen is not None and frame.over.any():
        out.update(final_entries(spec, frame, envs))
    return out


def final_entries(
    spec: VecSpec, frame: Frame, envs: Sequence[int] | Array | None = None
) -> dict[str, Any]:
    """What the infos of dict and stacked have besides when an episode ended in same-step mode.

    Args:
        spec, envs: as in `batch_infos`.
        frame: of the step; row r stands for environment ``envs[r]``.

    Returns:
        final_obs: for each agent an object array (rows,) of its last observations, None where
            it made none in the step that ended the episode, with the mask ``"_" + agent``.
        final_info: the infos of that step, in the form of `batch_infos`.
        final_state: only if an environment has ``state()``: what it was, (rows, ...).
        _final_obs, _final_info, _final_state: (rows,) bool, whose episode ended.
    """
    side, over = frame.side, frame.over
    ended = np.flatnonzero(over).tolist()
    seen = (frame.final_seen & OBSERVED != 0) & over[:, None]
    observations: dict[str, Any] = {}
    for slot, agent in enumerate(spec.agents):
        observations[agent], observations[f"_{agent}"] = objects(len(over)), seen[:, slot].copy()
    for row in ended:
        for slot in np.flatnonzero(seen[row]).tolist():
            observations[spec.agents[slot]][row] = _observation(spec, frame, row, slot)
    out = {
        "final_obs": observations,
        "_final_obs": over.copy(),
        "final_info": _batched(spec, side.final_infos, envs, side.final_slots),
        "_final_info": over.copy(),
    }
    if side.final_state:
        rows = _rows(envs, len(over))
        cells: Cells = [
            (row, {"final_state": side.final_state[env]})
            for row, env in enumerate(rows) if env in side.final_state
        ]  # fmt: skip
        spread([out], len(over), cells)
    return out


def flat_infos(
    spec: VecSpec, side: Side, envs: Sequence[int] | Array | None = None
) -> dict[str, Any]:
    """The infos of the layout flat, as Gymnasium's `SyncVectorEnv` gives them.

    Where Gymnasium would lose something (0.5 beside an int, arrays of different shapes) the
    value is kept and the array has a wider type.

    Args:
        spec, side, envs, slots: as in `batch_infos`.

    Returns:
        ``{key: array (rows · A, ...), "_key": mask (rows · A,) bool}``; row · A + slot is where an
        agent's info stands. What was reported under a name that is no agent stands under that
        name in every row of its environment.

    Raises:
        ResultError: what an environment reported for an agent is not a dict.
    """
    out: dict[str, Any] = {}
    if side.columns:
        _flat_from_columns(out, spec, side, envs)
    elif side.infos:
        _flattened(out, spec, side.infos, envs, side.slots)
    return out


def flat_final_entries(
    spec: VecSpec, frame: Frame, envs: Sequence[int] | Array | None = None
) -> dict[str, Any]:
    """What the infos of flat have besides when an episode ended in same-step mode.

    Returns:
        final_obs: (rows · A,) objects, the last observation of the agents that were live in the
            episode's last step, None elsewhere.
        final_info: their infos, in the form of `flat_infos`.
        final_state: as in `final_entries`, the same in every row of an environment.
        _final_obs, _final_info, _final_state: (rows · A,) bool, where they are set.
    """
    side, total = frame.side, frame.rows * len(spec.agents)
    was = frame.acted & frame.over[:, None]
    observations = objects(total)
    for row, slot in zip(*(k.tolist() for k in np.nonzero(was)), strict=True):
        if frame.final_seen[row, slot] & OBSERVED:
            at = row * len(spec.agents) + slot
            observations[at] = _observation(spec, frame, row, slot)
    info: dict[str, Any] = {}
    _flattened(info, spec, side.final_infos, envs, side.final_slots)
    out = {
        "final_obs": observations,
        "_final_obs": was.reshape(-1).copy(),
        "final_info": info,
        "_final_info": was.reshape(-1).copy(),
    }
    if side.final_state:
        states = {env: {"final_state": value} for env, value in side.final_state.items()}
        _flattened(out, spec, states, envs, {})
    return out


# ---- from infos by environment to cells -------------------------------------------


def _rows(envs: Sequence[int] | Array | None, count: int) -> Sequence[int]:
    if envs is None:
        return range(count)
    rows: Sequence[int] = envs.tolist() if isinstance(envs, np.ndarray) else envs
    return rows


def _told(
    spec: VecSpec,
    infos: Mapping[int, Mapping[str, Any]],
    rows: Sequence[int],
    slots: Mapping[int, Mapping[str, int]],
) -> Iterator[tuple[int, int | None, str, Any]]:
    """(Row, slot, name, info) of all that was told; the slot is None where no agent has the name.

    Raises:
        ResultError: what was told of an agent is not a dict.
    """
    slot_of = spec.slot
    for row, env in enumerate(rows):
        named = infos.get(env)
        if not named:
            continue
        more = slots.get(env) if slots else None
        for name, info in named.items():
            slot = slot_of.get(name)
            if slot is None and more:
                slot = more.get(name)
            if slot is not None:
                if not info:
                    continue
                if not isinstance(info, dict):
                    raise _illegal(env, name, info)
            yield row, slot, name, info


def _batched(
    spec: VecSpec,
    infos: Mapping[int, Mapping[str, Any]],
    envs: Sequence[int] | Array | None,
    slots: Mapping[int, Mapping[str, int]],
) -> dict[str, Any]:
    rows = _rows(envs, spec.num_envs)
    count = len(rows)
    cells: Cells = []
    shared: Cells = []
    for row, slot, name, info in _told(spec, infos, rows, slots):
        if slot is None:
            shared.append((row, {name: info}))
        else:
            cells.append((slot * count + row, info))
    outs: list[dict[str, Any]] = [{} for _ in spec.agents]
    if cells:
        spread(outs, count, cells)
    out: dict[str, Any] = dict(zip(spec.agents, outs, strict=True))
    if shared:
        spread([out], count, shared)
    return out


def _flattened(
    out: dict[str, Any],
    spec: VecSpec,
    infos: Mapping[int, Mapping[str, Any]],
    envs: Sequence[int] | Array | None,
    slots: Mapping[int, Mapping[str, int]],
) -> None:
    rows = _rows(envs, spec.num_envs)
    width = len(spec.agents)
    cells: Cells = []
    for row, slot, name, info in _told(spec, infos, rows, slots):
        if slot is None:  # a copy for each row, so that none shares an object with another
            cells += [
                (row * width + k, {name: copy_info(info) if k else info}) for k in range(width)
            ]
        else:
            cells.append((row * width + slot, info))
    if width > 1:  # the first value's type counts: by slots, in whatever order they were told
        cells.sort(key=itemgetter(0))
    if cells:
        spread([out], len(rows) * width, cells, gymnasium=True)


def _from_columns(spec: VecSpec, side: Side, envs: Sequence[int] | Array | None) -> dict[str, Any]:
    """As `_batched`, straight from columns where nothing speaks against it."""
    rows = _rows(envs, spec.num_envs)
    count, slot_of = len(rows), spec.slot
    row_of = {env: row for row, env in enumerate(rows)}

    def position(of: list[int], names: list[Any]) -> list[int]:
        pairs = zip(of, names, strict=True)
        return [slot_of[name] * count + row_of[env] for env, name in pairs]

    outs: list[dict[str, Any]] = [{} for _ in spec.agents]
    if not scatter(outs, count, side.columns, position, _keys(side)):
        return _batched(spec, side.infos, envs, side.slots)
    if not side.rest:
        return dict(zip(spec.agents, outs, strict=True))
    out = _batched(spec, side.rest, envs, side.slots)
    for agent, more in zip(spec.agents, outs, strict=True):
        out[agent].update(more)
    return out


def _flat_from_columns(
    out: dict[str, Any], spec: VecSpec, side: Side, envs: Sequence[int] | Array | None
) -> None:
    rows = _rows(envs, spec.num_envs)
    width, slot_of = len(spec.agents), spec.slot
    row_of = {env: row for row, env in enumerate(rows)}

    def position(of: list[int], names: list[Any]) -> list[int]:
        pairs = zip(of, names, strict=True)
        return [row_of[env] * width + slot_of[name] for env, name in pairs]

    done = scatter([out], len(rows) * width, side.columns, position, _keys(side), gymnasium=True)
    rest = side.rest if done else side.infos
    if rest:
        _flattened(out, spec, rest, envs, side.slots)


def _keys(side: Side) -> set[Any]:
    """Every key under which there is something that is not in the columns."""
    infos = [info for named in side.rest.values() for info in named.values()]
    return {key for info in infos if isinstance(info, dict) for key in info}


def _illegal(env: int, name: str, info: Any) -> ResultError:
    return ResultError(
        f"environment {env}: the info of agent {name!r} must be a dict, got {info!r:.200}",
        env=env, agent=name,
    )  # fmt: skip


def _observation(spec: VecSpec, frame: Frame, row: int, slot: int) -> Any:
    """The last observation of an agent, as its space builds it; a copy."""
    g, k = spec.where[slot]
    assert frame.final_obs is not None
    values = [leaf[row, k] for leaf in frame.final_obs[g]]
    return spec.groups[g].observation.build(
        [value.copy() if isinstance(value, np.ndarray) else value for value in values]
    )
