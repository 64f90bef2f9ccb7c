"""What was earned, in how many steps and how long: of each agent, each group, each environment."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..types import Array, BoolArray, whole
from .wrapping import Rows, VectorWrapper, matrix

__all__ = ["Queues", "RecordEpisodeStatistics"]


class Queues(NamedTuple):
    """The last episodes of somebody.

    Attributes:
        r: returns.
        l: lengths in steps.
        t: durations in seconds.
    """

    r: deque[float]
    l: deque[int]  # noqa: E741 - as Gymnasium calls it
    t: deque[float]


class RecordEpisodeStatistics(VectorWrapper):
    """Adds the statistics of an episode to the infos of the step that ends it.

    An agent's episode ends when the agent is terminated or truncated; that of a group and of the
    environment when the environment ends. Only steps count in which somebody acted: an agent
    that is dead, or an automatic reset, adds nothing.

    - dict and stacked: ``infos[agent]["episode"]`` is ``{"r": (rows,) float64, "l": (rows,)
      int64, "t": (rows,) float64}``, valid where ``infos[agent]["_episode"]`` is True.
      ``infos["episode"]`` with the mask ``infos["_episode"]`` is the same of the environments, and
      ``infos["episode"]["groups"][group]`` of groups.
    - list: ``infos[i][agent]["episode"]`` is ``{"r": float, "l": int, "t": float}``;
      ``infos[i]["episode"]`` is the environment's, with ``"groups"`` in it.

    r is the sum of rewards (of all members, for a group or an environment), l the number of steps
    in which it (some member) acted, t the time since the episode began in seconds. Without an end
    in a step nothing is added.

    Args:
        vec: in the layout dict, stacked or list.
        buffer_length: how many episodes the queues keep.
        stats_key: in place of ``"episode"``.

    Attributes:
        return_queue, length_queue, time_queue: of the last episodes of environments.
        agent_queues, group_queues: name -> `Queues`.
        episode_count: how many episodes of environments have ended.

    Raises:
        ConfigError: another layout, or a `buffer_length` that is no positive whole number.
    """

    def __init__(self, vec: Any, buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(vec)
        length = whole(buffer_length)
        if length is None or length < 1:
            raise ConfigError(
                f"RecordEpisodeStatistics(buffer_length=…): expected a whole number from 1, got "
                f"{buffer_length!r}"
            )
        spec = self._spec_of
        self._key = stats_key
        self._return: Array = np.zeros((spec.num_envs, len(spec.agents)))
        self._length: Array = np.zeros((spec.num_envs, len(spec.agents)), np.int64)
        # Of groups and, in the last column, of the environment.
        self._team_return: Array = np.zeros((spec.num_envs, len(spec.groups) + 1))
        self._team_length: Array = np.zeros((spec.num_envs, len(spec.groups) + 1), np.int64)
        self._start: Array = np.zeros(spec.num_envs)
        self.episode_count = 0
        self._env_queues = _queues(length)
        self.return_queue, self.length_queue, self.time_queue = self._env_queues
        self.agent_queues = {agent: _queues(length) for agent in spec.agents}
        self.group_queues = {group.name: _queues(length) for group in spec.groups}

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        self._forget(slice(None) if self._chosen is None else self._chosen)

    def _forget(self, envs: Any) -> None:
        """An episode begins in these environments."""
        for values in (self._return, self._length, self._team_return, self._team_length):
            values[envs] = 0
        self._start[envs] = time.perf_counter()

    def _after(
        self, rows: Rows, obs: Any, rewards: Any, terms: Any, truncs: Any, infos: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        earned = self._matrix(rows, rewards)
        envs: Any = slice(None) if len(rows.envs) == self._spec_of.num_envs else rows.envs
        self._return[envs] += earned
        self._length[envs] += rows.acted
        for g, group in enumerate(self._spec_of.groups):
            columns: Any = slice(None) if group.whole else group.slots
            self._team_return[envs, g] += earned[:, columns].sum(1)
            self._team_length[envs, g] += rows.acted[:, columns].any(1)
        self._team_return[envs, -1] += earned.sum(1)
        self._team_length[envs, -1] += rows.acted.any(1)
        if self.unwrapped.layout == "list":
            self._add_guests(rows, rewards)
        if rows.over.any() or rows.ended.any():
            self._tell(rows, infos)
        if rows.fresh.any():
            self._forget(rows.envs[rows.fresh])
        return obs, rewards, terms, truncs, infos

    def _matrix(self, rows: Rows, rewards: Any) -> Array:
        if self.vec is self.unwrapped:
            earned: Array = self.unwrapped._frame.reward
            return earned
        if self.unwrapped.layout != "list":
            return matrix(self, rewards)
        count = len(self._spec_of.agents)
        earned = np.zeros((len(rewards), count))
        for row, named in enumerate(rewards):
            for slot in range(count):
                earned[row, slot] = named.get(self.unwrapped._named(row, slot, True), 0.0)
        return earned

    def _add_guests(self, rows: Rows, rewards: Any) -> None:
        """What agents without a slot earned is their environment's."""
        extras = self.unwrapped._frame.side.extras
        for row, env in enumerate(rows.envs.tolist()) if extras else ():
            for agent in extras.get(env, {}).get("rewards", ()):
                self._team_return[env, -1] += rewards[row].get(agent, 0.0)

    def _tell(self, rows: Rows, infos: Any) -> None:
        envs = rows.envs
        now = time.perf_counter()
        spent = np.round(now - self._start[envs], 6)
        r, length = self._return[envs], self._length[envs]
        team_r, team_l = self._team_return[envs], self._team_length[envs]
        over = rows.over.copy()
        # Who is live when its environment ends has ended too, flagged or not.
        ended = rows.ended | (rows.acted & over[:, None])
        self._keep(ended, over, r, length, team_r, team_l, spent)
        put = self._in_list if self.unwrapped.layout == "list" else self._in_arrays
        put(infos, ended, over, (r, length, spent), (team_r, team_l))
        # Who comes back under the same name lives anew.
        self._return[envs] = np.where(ended, 0.0, r)
        self._length[envs] = np.where(ended, 0, length)

    def _in_arrays(
        self, infos: dict[str, Any], ended: BoolArray, over: BoolArray, own: Any, teams: Any
    ) -> None:
        (r, length, spent), (team_r, team_l) = own, teams
        for slot in np.flatnonzero(ended.any(0)).tolist():
            mask = ended[:, slot].copy()
            info = infos[self._spec_of.agents[slot]]
            info[self._key] = _entry(mask, r[:, slot], length[:, slot], spent)
            info[f"_{self._key}"] = mask
        if over.any():
            entry: dict[str, Any] = _entry(over, team_r[:, -1], team_l[:, -1], spent)
            entry["groups"] = {
                group.name: _entry(over, team_r[:, g], team_l[:, g], spent)
                for g, group in enumerate(self._spec_of.groups)
            }
            infos[self._key], infos[f"_{self._key}"] = entry, over

    def _in_list(
        self, infos: list[dict[str, Any]], ended: BoolArray, over: BoolArray, own: Any, teams: Any
    ) -> None:
        (r, length, spent), (team_r, team_l) = own, teams
        for row, slot in zip(*(x.tolist() for x in np.nonzero(ended)), strict=True):
            info = infos[row].setdefault(self.unwrapped._named(row, slot, True), {})
            info[self._key] = _one(r[row, slot], length[row, slot], spent[row])
        for row in np.flatnonzero(over).tolist():
            infos[row][self._key] = {
                **_one(team_r[row, -1], team_l[row, -1], spent[row]),
                "groups": {
                    group.name: _one(team_r[row, g], team_l[row, g], spent[row])
                    for g, group in enumerate(self._spec_of.groups)
                },
            }

    def _keep(
        self, ended: BoolArray, over: BoolArray, r: Array, length: Array, team_r: Array,
        team_l: Array, spent: Array,
    ) -> None:  # fmt: skip
        """Into the queues, environments in ascending order."""
        spec = self._spec_of
        for row, slot in zip(*(x.tolist() for x in np.nonzero(ended)), strict=True):
            _push(self.agent_queues[spec.agents[slot]], r[row, slot], length[row, slot], spent[row])
        for row in np.flatnonzero(over).tolist():
            self.episode_count += 1
            _push(self._env_queues, team_r[row, -1], team_l[row, -1], spent[row])
            for g, group in enumerate(spec.groups):
                _push(self.group_queues[group.name], team_r[row, g], team_l[row, g], spent[row])


def _queues(length: int) -> Queues:
    return Queues(deque(maxlen=length), deque(maxlen=length), deque(maxlen=length))


def _push(queues: Queues, r: Any, length: Any, t: Any) -> None:
    queues.r.append(float(r))
    queues.l.append(int(length))
    queues.t.append(float(t))


def _one(r: Any, length: Any, t: Any) -> dict[str, Any]:
    return {"r": float(r), "l": int(length), "t": float(t)}


def _entry(mask: BoolArray, r: Array, length: Array, t: Array) -> dict[str, Any]:
    """Zero where the mask is False, as in all infos."""
    return {
        "r": np.where(mask, r, 0.0),
        "l": np.where(mask, length, 0),
        "t": np.where(mask, t, 0.0),
    }
