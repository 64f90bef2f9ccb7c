"""Policies written by hand, one a task. They see what a learner sees: the observations.

A policy is called with observations (..., observation) float32 and gives actions of shape
(..., 3) float32, or (..., 1) int64 for discrete actions; so it takes one agent, a world's agents,
or all agents of many worlds at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seer.envs.uav_swarm.model import GOALS, Coverage
from seer.envs.uav_swarm.swarm import EACH, HEARD, OWN

Policy = Callable[[Any], Any]


def heuristic(model: Any) -> Policy:
    """The policy for a model's task.

    Args:
        model: a `Coverage` or a `Rendezvous`.

    Returns:
        observations (..., observation) float32 -> actions (..., 3) float32 or (..., 1) int64.
    """
    command = (coverage if isinstance(model, Coverage) else rendezvous)(model.p)
    if not model.p.discrete:
        return command
    return lambda observation: _nearest_action(command(observation))


def coverage(p: Any) -> Policy:
    """Go to the nearest point that nobody else watches and stay; without one, spread out."""
    radius = np.sqrt(max(p.sensing**2 - LOW**2, 0.0))

    def act(observation: Any) -> Any:
        o = np.asarray(observation, np.float64)
        own = _Own(o, p)
        start = OWN + EACH * p.neighbours + HEARD
        goals = o[..., start : start + 4 * GOALS].reshape(*o.shape[:-1], GOALS, 4)
        there: Any = goals[..., 0] > 0.5
        mine: Any = there & (goals[..., 3] > 0.5)
        place = goals[..., 1:3] * p.sight

        # Stay over the middle of one's own points, leaning to a free one that fits in as well.
        first_free = there & ~mine
        first_free &= np.cumsum(first_free, axis=-1) == 1
        weight = mine + first_free
        middle = (place * weight[..., None]).sum(-2) / np.maximum(weight.sum(-1), 1)[..., None]
        spread = np.where(weight > 0, np.linalg.norm(place - middle[..., None, :], axis=-1), 0)
        fits = spread.max(-1) < 0.9 * radius
        mine_only = (place * mine[..., None]).sum(-2) / np.maximum(mine.sum(-1), 1)[..., None]
        free = (place * first_free[..., None]).sum(-2)
        target = np.where(mine.any(-1)[..., None], mine_only, free)
        target = np.where(fits[..., None] & there.any(-1)[..., None], middle, target)

        # Nothing to watch: away from those heard, and on.
        heard = o[..., start - HEARD + 1 : start - HEARD + 3] * p.radio_range
        away = -heard / np.maximum(np.linalg.norm(heard, axis=-1), 1e-6)[..., None]
        roam = 6.0 * away + own.velocity[..., :2] + own.walls(12.0)
        target = np.where(there.any(-1)[..., None], target, roam)

        want = np.concatenate([target, (LOW - own.z)[..., None]], -1)
        return own.command(want, keep_off=5.0)

    return act


def rendezvous(p: Any) -> Policy:
    """Go to the middle of the teammates heard lately, and keep a little room."""

    def act(observation: Any) -> Any:
        o = np.asarray(observation, np.float64)
        own = _Own(o, p)
        start = OWN + EACH * p.neighbours
        want = o[..., start + 1 : start + 4] * p.radio_range
        return own.command(want, keep_off=max(2.5 * p.collision, 2.0))

    return act


LOW = 6.0  # altitude from which points are watched, m


class _Own:
    """The part of an observation that every task has, in metres and seconds."""

    def __init__(self, o: Any, p: Any) -> None:
        self.p = p
        self.velocity = o[..., 0:3] * p.speed
        self.z = o[..., 3] * p.height
        self.wall = o[..., 5:9] * p.sight
        near = o[..., OWN : OWN + EACH * p.neighbours]
        near = near.reshape(*o.shape[:-1], p.neighbours, EACH)
        self.there = near[..., 0] > 0.5
        self.place = near[..., 1:4] * p.sight
        self.closing = near[..., 4:7] * p.speed

    def walls(self, room: float) -> Any:
        """A push (..., 2) away from walls nearer than `room`, m."""
        push = np.maximum(room - self.wall, 0.0)
        return np.stack([push[..., 0] - push[..., 1], push[..., 2] - push[..., 3]], -1)

    def command(self, want: Any, keep_off: float) -> Any:
        """The action that flies to `want` (..., 3), m from here, clear of the neighbours."""
        far = np.linalg.norm(want, axis=-1)[..., None]
        cruise = 0.7 * self.p.speed
        speed = np.minimum(0.8 * far, cruise) / np.maximum(far, 1e-6)
        push = 1.5 * (want * speed - self.velocity)
        # Where a neighbour will be in half a second counts, so that two do not meet head on.
        soon = self.place + 0.4 * self.closing
        gap = np.minimum(np.linalg.norm(soon, axis=-1), np.linalg.norm(self.place, axis=-1))
        shove = np.where(self.there, np.maximum(keep_off - gap, 0.0) / keep_off, 0.0)
        off = soon / np.maximum(np.linalg.norm(soon, axis=-1), 1e-3)[..., None]
        push = push - 4.0 * self.p.acceleration * (off * shove[..., None]).sum(-2)
        return np.clip(push / self.p.acceleration, -1.0, 1.0).astype(np.float32)


def _nearest_action(command: Any) -> Any:
    """The discrete action closest to a command (..., 3): the strongest axis, if any is strong."""
    axis = np.abs(command).argmax(-1)
    value = np.take_along_axis(command, axis[..., None], -1)[..., 0]
    return np.where(np.abs(value) < 0.3, 0, 1 + 2 * axis + (value < 0))[..., None]
