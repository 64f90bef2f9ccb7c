"""One environment's row of a frame, agent by agent: everything that is out of the usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .cells import Cell, Outcome, number
from .contract import FLAGGED, INFORMED, OBSERVED, REWARDED, Side, VecSpec
from .frames import Frame
from .infos import copy_info
from .pack import flattened, stack

__all__ = ["RowWriter", "quieten"]


class RowWriter:
    """Writes what environments reported.

    Args:
        spec: of the vector.
    """

    def __init__(self, spec: VecSpec) -> None:
        self.spec = spec

    def write(
        self, frame: Frame, cell: Cell, out: Outcome, side: Side, before: Sequence[str],
        was_reset: bool = False,
    ) -> None:  # fmt: skip
        """One environment's row."""
        row, name = cell.index, self.spec.slot
        seen = frame.seen[row]
        seen[:] = 0
        frame.flags[:, row] = False
        frame.lives[:, row] = False
        frame.reward[row] = 0.0
        frame.over[row] = cell.over
        frame.was_reset[row] = was_reset
        extras: dict[str, dict[str, Any]] = {}
        for what, flags, target in (
            ("terminations", out.terminations, frame.terminated),
            ("truncations", out.truncations, frame.truncated),
        ):
            for agent, flag in flags.items():
                slot = name.get(agent)
                if slot is None and (slot := cell.slot(agent)) is None:
                    extras.setdefault(what, {})[agent] = flag
                    continue
                seen[slot] |= FLAGGED
                if flag:
                    target[row, slot] = True
        for agent, reward in out.rewards.items():
            slot = name.get(agent)
            if slot is None and (slot := cell.slot(agent)) is None:
                extras.setdefault("rewards", {})[agent] = number(reward, row, agent)
                continue
            seen[slot] |= REWARDED
            frame.reward[row, slot] = number(reward, row, agent)
        self._observe(frame.obs, "obs", seen, cell, out.obs, side, extras)
        self._inform(cell, out.infos, seen, side.infos)
        self._enliven(frame, cell, extras)
        for agent in before:
            slot = cell.slot(agent)
            if slot is not None:
                frame.acted[row, slot] = True
        if extras:
            side.extras[row] = extras
        if cell.assigned:
            side.slots[row] = dict(cell.assigned)

    def _enliven(self, frame: Frame, cell: Cell, extras: dict[str, dict[str, Any]]) -> None:
        row = cell.index
        frame.turn[row] = cell.turn
        for agent in cell.live:
            slot = cell.slot(agent)
            if slot is None:
                extras.setdefault("live", {})[agent] = True
            else:
                frame.live[row, slot] = True

    def _observe(
        self, target: Any, what: str, seen: Any, cell: Cell, obs: Any, side: Side,
        extras: dict[str, dict[str, Any]],
    ) -> None:  # fmt: skip
        """The observations of one environment into its row, and fillers for who has none."""
        row, spec = cell.index, self.spec
        mine: list[tuple[list[int], list[Any], list[str]]] = [([], [], []) for _ in spec.groups]
        for agent, value in obs.items():
            slot = cell.slot(agent)
            if slot is None:
                extras.setdefault(what, {})[agent] = copy_info(value)
                continue
            seen[slot] |= OBSERVED
            g, k = spec.where[slot]
            mine[g][0].append(k)
            mine[g][1].append(value)
            mine[g][2].append(agent)
        for g, (group, (places, values, agents)) in enumerate(zip(spec.groups, mine, strict=True)):
            absent = len(places) < len(group)
            flat = flattened(group, values, [row] * len(values), agents) if values else []
            for k, leaf in enumerate(group.observation.leaves):
                if absent:
                    target[g][k][row] = group.fillers[k]
                if not values:
                    continue
                parts = [one[k] for one in flat]
                if leaf.dtype == object:
                    cells = side.objects.setdefault((what, g, k), {})
                    for place_, part in zip(places, parts, strict=True):
                        cells[row, place_] = target[g][k][row, place_] = copy_info(part)
                else:
                    stack(leaf, parts, target[g][k][row], places, [row] * len(parts), agents)

    def _inform(self, cell: Cell, infos: Any, seen: Any, into: dict[int, dict[str, Any]]) -> None:
        if not infos:
            return
        slots = self.spec.slot
        kept = {}
        for agent, info in infos.items():
            slot = slots.get(agent, cell.assigned.get(agent))
            if slot is not None:
                seen[slot] |= INFORMED
            if info:
                kept[agent] = copy_info(info)
        if kept:
            into[cell.index] = kept

    def keep_last(self, frame: Frame, cell: Cell, out: Outcome, side: Side) -> None:
        """What an episode ended with, before its environment is reset in the same step."""
        env = cell.index
        assert frame.final_obs is not None
        for finals, obs in zip(frame.final_obs, frame.obs, strict=True):
            for final, now in zip(finals, obs, strict=True):
                final[env] = now[env]
        frame.final_seen[env] = frame.seen[env]
        if cell.assigned:
            side.final_slots[env] = dict(cell.assigned)
            side.slots.pop(env, None)
        for (what, g, k), cells in list(side.objects.items()):
            if what == "obs":
                moved = {at: cells.pop(at) for at in list(cells) if at[0] == env}
                side.objects.setdefault(("final_obs", g, k), {}).update(moved)
        if env in side.infos:
            side.final_infos[env] = side.infos.pop(env)
        extras = side.extras.get(env)
        if extras and "obs" in extras:
            extras["final_obs"] = extras.pop("obs")
        if self.spec.has_state:
            side.final_state[env] = np.array(cell.env.state())

    def write_first(self, frame: Frame, cell: Cell, out: Outcome, side: Side) -> None:
        """The new episode's observation into a row whose rewards and flags are the old one's."""
        row = cell.index
        seen = frame.seen[row]
        seen &= REWARDED | FLAGGED
        extras = side.extras.get(row, {})
        extras.pop("live", None)
        frame.live[row] = False
        self._observe(frame.obs, "obs", seen, cell, out.obs, side, extras)
        self._inform(cell, out.infos, seen, side.infos)
        self._enliven(frame, cell, extras)
        if extras:
            side.extras[row] = extras
        if cell.assigned:
            side.slots[row] = dict(cell.assigned)


def quieten(frame: Frame, rows: Any) -> None:
    """The rows, by number or by mask, of environments that a reset leaves alone."""
    frame.flags[:, rows] = False
    frame.acted[rows] = False
    frame.reward[rows] = 0.0
    frame.over[rows] = False
    frame.was_reset[rows] = False
