"""Steps environments in which everybody lives, by `quick.c` where it can be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array
from .cells import Cell
from .contract import EnvFailure, VecSpec
from .outgoing import ActionRows

try:
    from . import _quick as _c
except ImportError:  # not built for this interpreter: the same in Python
    _c = None  # type: ignore[assignment]

lists_in_c: Any = getattr(_c, "lists", None)
pack_in_c: Any = getattr(_c, "pack", None)
ready_in_c: Any = getattr(_c, "ready", None)
run_in_c: Any = getattr(_c, "run", None)

__all__ = ["Quick", "pack_in_c", "ready_actions", "run_in_c", "run_in_python", "usual_lists"]

_Odd = list[tuple[int, Any]]


class Quick:
    """The usual step of up to `room` environments.

    Args:
        spec: of the vector.
        room: how many there can be.

    Attributes:
        rewards: (room, A) float64 of the last run; rows of what was odd are void.
        results: what environments returned in the last run, where nothing was odd and the
            layout can use it.
    """

    def __init__(self, spec: VecSpec, room: int) -> None:
        self._names, self._lone = spec.agents, spec.kind == "gymnasium"
        self.rewards: Array = np.zeros((room, len(spec.agents)))
        self._address = int(self.rewards.ctypes.data)
        self._keep = spec.open_names
        self.results: list[Any] | None = None

    def run(
        self, cells: Sequence[Cell], envs: list[int], rows: ActionRows, odd: _Odd
    ) -> tuple[list[Any], _Odd]:
        """Step them, in order.

        Args:
            cells: environments in which everybody lives.
            envs: their numbers.
            rows: their actions.
            odd: gets (number among `cells`, what it returned) of those that report anything out
                of the usual.

        Returns:
            The observations of the others, agent after agent, and (number, infos) of those that
            have any.

        Raises:
            EnvFailure: an environment raised; those after it were not stepped.
        """
        obs: list[Any] = []
        told: _Odd = []
        at = [0]
        try:
            if self._lone:
                _run_gymnasium(cells, rows, obs, self.rewards, told, odd, at)
                return obs, told
            looks = [cell.look for cell in cells]
            acts = rows.rows(envs)
            if run_in_c is not None:
                results: list[Any] | None = [] if self._keep else None
                run_in_c(
                    looks, self._names, acts, rows.table, obs, self._address, told, odd, at,
                    results,
                )  # fmt: skip
                self.results = None if odd else results
            else:
                run_in_python(
                    looks, self._names, acts, rows.table, obs, self.rewards, told, odd, at
                )
        except Exception as error:
            raise EnvFailure(cells[at[0]].index, error) from error
        return obs, told


def run_in_python(
    looks: list[Any], names: tuple[str, ...], rows: list[Any],
    table: dict[int, Any] | None, obs: list[Any], rewards: Array, told: _Odd, odd: _Odd,
    at: list[int],
) -> None:  # fmt: skip
    """What `run` of `quick.c` does, with an array in place of its address."""
    count = len(names)
    for j, ((env, order, _), row) in enumerate(zip(looks, rows, strict=True)):
        at[0] = j
        if isinstance(row, dict):
            result = env.step(row)
        else:
            if table is not None:
                row = [table.get(action, action) for action in row]
            result = env.step(dict(zip(names, row, strict=True)))
        try:
            seen, earned, terms, truncs, infos = result
            usual = (
                len(seen) == len(earned) == len(terms) == count
                and env.agents == order
                and not any(terms.values())
                and not any(truncs.values())
            )
            if usual:
                rewards[j] = [_plain(earned[name]) for name in names]
                obs += [seen[name] for name in names]
        except Exception:  # looked at closely, where it gets its message
            usual = False
        if not usual:
            odd.append((j, result))
        elif any(infos.values()):
            told.append((j, infos))


def _plain(value: Any) -> float:
    if isinstance(value, (str, bytes)) or np.ndim(value):
        raise TypeError
    return float(value)


def _run_gymnasium(
    cells: Sequence[Cell], rows: ActionRows, obs: list[Any], rewards: Array, told: _Odd,
    odd: _Odd, at: list[int],
) -> None:  # fmt: skip
    all_earned = []
    actions = rows.lones([cell.index for cell in cells])
    for j, (cell, action) in enumerate(zip(cells, actions, strict=True)):
        at[0] = j
        result = cell.env.step(action)
        earned: Any = 0.0
        try:
            seen, earned, term, trunc, info = result
            over = bool(term or trunc)
            if not isinstance(earned, float):
                earned = _plain(earned)
        except Exception:  # looked at closely, where it gets its message
            over, earned = True, 0.0
        all_earned.append(earned)
        if over:
            odd.append((j, result))
            continue
        obs.append(seen)
        if info:
            told.append((j, {cell.live[0]: info}))
    rewards[: len(cells), 0] = all_earned


def usual_lists(
    names: tuple[str, ...], obs: Array, rewards: Array, results: list[Any] | None = None
) -> tuple[Any, Any, Any, Any, Any]:
    """The results of a usual step by environment and agent.

    Args:
        names: (A,) agents.
        obs: (rows, A, ...) observations.
        rewards: (rows, A) float64.
        results: what each environment returned; its dicts are handed on where nobody else has
            them.

    Returns:
        Five lists with a dict for each row: observations, rewards, terminations and
        truncations (all False), infos (all empty).
    """
    if lists_in_c is not None and rewards.flags.c_contiguous:
        return lists_in_c(names, obs, rewards.ctypes.data, results)  # type: ignore[no-any-return]
    return (
        [dict(zip(names, row, strict=True)) for row in obs],
        [dict(zip(names, row, strict=True)) for row in rewards.tolist()],
        [dict.fromkeys(names, False) for _ in obs],
        [dict.fromkeys(names, False) for _ in obs],
        [{name: {} for name in names} for _ in obs],
    )


def ready_actions(spec: VecSpec, actions: Any) -> list[dict[str, Any]] | None:
    """Actions by environment and agent as they can be handed on, if everybody lives.

    Args:
        spec: of the vector.
        actions: a list of one dict for each environment.

    Returns:
        New dicts with scalars of the action's dtype; None where that takes a closer look.
    """
    group = spec.groups[0]
    if ready_in_c is None or not group.whole or not group.action.single:
        return None
    leaf = group.action.leaves[0]
    table = group.action.choices if leaf.shape == () else None
    if table is None:
        return None
    return ready_in_c(actions, spec.agents, table, leaf.dtype.type)  # type: ignore[no-any-return]
