"""The rows of turn-based environments in which a move has passed and nobody's life ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Cell, Outcome
from .contract import FLAGGED, INFORMED, OBSERVED, REWARDED, Side, VecSpec
from .frames import Frame
from .infos import copy_info
from .pack import stack

__all__ = ["TurnRows"]

_TOLD = OBSERVED | REWARDED | FLAGGED


class TurnRows:
    """Collects what environments told in their usual moves, and writes it all at once.

    Args:
        spec: of the vector; its observations can be batched.
    """

    def __init__(self, spec: VecSpec) -> None:
        self._spec = spec
        self.clear()

    def clear(self) -> None:
        """Forget what was kept."""
        self._envs: list[int] = []
        self._acted: list[int] = []
        self._slots: list[int] = []
        self._rewards: list[float] = []
        self._seen: list[int] = []
        # By group: number among these rows, place in the group, parts of the observation.
        self._rows: list[list[int]] = [[] for _ in self._spec.groups]
        self._places: list[list[int]] = [[] for _ in self._spec.groups]
        self._parts: list[list[Any]] = [[] for _ in self._spec.groups]

    def takes(self, cell: Cell, acted: int | None, out: Outcome, side: Side) -> bool:
        """Keep what one environment told until `write`.

        Args:
            cell: after its move.
            acted: slot of the agent that moved.
            out: what was reported.
            side: gets the info.

        Returns:
            False where more was told than what the agent has that is to act now: nothing is kept.
        """
        slot = cell.turn
        if slot < 0 or acted is None:
            return False
        if not len(out.rewards) == len(out.terminations) == len(out.obs) == 1:
            return False
        (agent,) = cell.live
        g, place = self._spec.where[slot]
        try:
            parts = self._spec.groups[g].observation.flatten(out.obs[agent])
        except (IndexError, KeyError, TypeError):
            return False  # looked at closely, where it gets its message
        self._rows[g].append(len(self._envs))
        self._places[g].append(place)
        self._parts[g].append(parts)
        self._envs.append(cell.index)
        self._acted.append(acted)
        self._slots.append(slot)
        self._rewards.append(out.rewards[agent])
        self._seen.append(_TOLD | INFORMED if out.infos else _TOLD)
        if out.infos:
            side.infos[cell.index] = {a: copy_info(info) for a, info in out.infos.items()}
        if cell.assigned:
            side.slots[cell.index] = dict(cell.assigned)
        return True

    def write(self, frame: Frame) -> None:
        """Write what was kept, and forget it.

        Raises:
            ResultError: an observation is of another shape or dtype than its space.
        """
        envs = self._envs
        if not envs:
            return
        try:
            self._write(frame, np.array(envs), np.array(self._slots))
        finally:
            self.clear()

    def _write(self, frame: Frame, envs: Any, slots: Any) -> None:
        frame.flags[:, envs] = False
        frame.lives[:, envs] = False
        frame.live[envs, slots] = True
        frame.acted[envs, self._acted] = True
        frame.seen[envs] = 0
        frame.seen[envs, slots] = self._seen
        frame.over[envs] = False
        frame.was_reset[envs] = False
        frame.turn[envs] = slots
        frame.reward[envs] = 0.0
        frame.reward[envs, slots] = self._rewards
        for g, group in enumerate(self._spec.groups):
            rows, places, parts = self._rows[g], self._places[g], self._parts[g]
            if not rows:
                for filler, target in zip(group.fillers, frame.obs[g], strict=True):
                    target[envs] = filler
                continue
            mine = envs[rows]
            names = [group.agents[place] for place in places]
            for k, leaf in enumerate(group.observation.leaves):
                target = frame.obs[g][k]
                block = np.empty((len(rows), *leaf.shape), leaf.dtype)
                stack(leaf, [one[k] for one in parts], block, slice(None), mine.tolist(), names)
                target[envs] = group.fillers[k]
                target[mine, places] = block
