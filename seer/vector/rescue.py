"""What the caller is told of environments whose worker has ended and was replaced.

Their live agents are truncated in that step, with reward 0 and their last observation once more;
the new worker's environments begin new episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .contract import FLAGGED, OBSERVED, REWARDED, Side, VecSpec
from .describe import LONE
from .frames import Frame
from .leaves import OBJECT
from .told import Told

__all__ = ["rescue", "tell_restart"]


def rescue(
    spec: VecSpec,
    frame: Frame,
    told: Told,
    envs: Sequence[int],
    renew: Callable[[list[int]], None],
    side: Side,
    restarts: int,
) -> None:
    """Write the rows of environments that were lost.

    Args:
        spec: of the vector.
        frame: what is written.
        told: what the caller was told before.
        envs: the environments.
        renew: begins episodes in some of them and writes their rows.
        side: what arrays can't carry is added to it.
        restarts: how often the worker was replaced.
    """
    rows = np.asarray(envs, np.int64)
    running = told.running(rows)
    hit, rest = rows[running], rows[~running]
    live = told.live(hit)
    assert told.kept is not None
    obs = [[leaf[hit].copy() for leaf in leaves] for leaves in told.kept.obs]
    for group, leaves in zip(spec.groups, obs, strict=True):
        absent = ~live[:, group.slots]
        for k, leaf in enumerate(leaves):
            if leaf.dtype != OBJECT:
                leaf[absent] = np.broadcast_to(group.fillers[k], leaf.shape)[absent]
    if spec.mode == "same_step":
        renew(hit.tolist())
        assert frame.final_obs is not None
        _put(frame.final_obs, hit, obs)
        frame.final_seen[hit] = np.where(live, OBSERVED, 0)
        frame.seen[hit] |= np.where(live, REWARDED | FLAGGED, 0).astype(np.uint8)
        what = "final_obs"
    else:
        _put(frame.obs, hit, obs)
        frame.seen[hit] = np.where(live, OBSERVED | REWARDED | FLAGGED, 0)
        frame.live[hit] = False
        frame.turn[hit] = -1
        what = "obs"
    frame.terminated[hit] = False
    frame.truncated[hit] = live
    frame.acted[hit] = live
    frame.reward[hit] = 0.0
    frame.over[hit] = True
    frame.was_reset[hit] = False
    _tell_objects(spec, side, what, hit.tolist(), live, obs)
    _tell_guests(side, what, hit.tolist(), told)
    if len(rest):  # their automatic reset was due
        renew(rest.tolist())
        frame.was_reset[rest] = spec.mode == "next_step"
    tell_restart(spec, side, envs, restarts)


def tell_restart(spec: VecSpec, side: Side, envs: Sequence[int], restarts: int) -> None:
    """Let infos say that environments are in a new worker."""
    for env in envs:
        infos = side.infos.setdefault(int(env), {})
        if spec.kind == "gymnasium":
            infos = infos.setdefault(LONE, {})
        infos["worker_restarted"] = restarts


def _tell_guests(side: Side, what: str, envs: list[int], told: Told) -> None:
    """Agents that were not announced are cut off like the others."""
    for env in envs:
        guests = told.guests.get(env)
        if guests is None:
            continue
        if guests.slots:
            (side.slots if what == "obs" else side.final_slots)[env] = dict(guests.slots)
        if guests.obs:
            extras = side.extras.setdefault(env, {})
            extras[what] = {name: seen for name, seen in guests.obs.items() if seen is not None}
            extras["rewards"] = dict.fromkeys(guests.obs, 0.0)
            extras["terminations"] = dict.fromkeys(guests.obs, False)
            extras["truncations"] = dict.fromkeys(guests.obs, True)


def _put(target: list[list[np.ndarray]], rows: np.ndarray, values: list[list[np.ndarray]]) -> None:
    for leaves, given in zip(target, values, strict=True):
        for leaf, value in zip(leaves, given, strict=True):
            leaf[rows] = value


def _tell_objects(
    spec: VecSpec,
    side: Side,
    what: str,
    envs: list[int],
    live: np.ndarray,
    obs: list[list[np.ndarray]],
) -> None:
    """Leaves that can't be batched travel beside the arrays."""
    for g, (group, leaves) in enumerate(zip(spec.groups, obs, strict=True)):
        for k, leaf in enumerate(leaves):
            if leaf.dtype == OBJECT:
                cells = side.objects.setdefault((what, g, k), {})
                for row, env in enumerate(envs):
                    for at, slot in enumerate(group.slots.tolist()):
                        if live[row, slot]:
                            cells[env, at] = leaf[row, at]
