"""Rows of turn-based environments: one each, for the agent whose turn it is.

A row shows the agent that is to act: its observation, the reward it was given since it last
acted, its info. Where an episode has ended it shows the agent that made the last move. What other
agents were told in the same step (their last observation, reward and flags) is in
``infos["others"]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array
from .contract import FLAGGED, OBSERVED, REWARDED, Actions, Side, VecSpec
from .flat_rows import Rows, batched_parts, forget, pack_values
from .frames import Frame
from .infos import copy_info, flat_infos
from .leaves import OBJECT

__all__ = ["Turns"]


class Turns(Rows):
    """One row for each environment.

    Args:
        spec: of the vector; its agents have equal spaces.
    """

    def __init__(self, spec: VecSpec) -> None:
        super().__init__(spec)
        self.width, self.views = 1, False
        self._group = np.array([g for g, _ in spec.where])
        self._place = np.array([k for _, k in spec.where])
        self._names: Array = np.empty(len(spec.agents), object)
        self._names[:] = spec.agents
        # Infos are put together as those of a vector whose only agent is the one that is shown.
        self._shown = VecSpec(spec.num_envs, ("row",), (), "gymnasium", spec.mode)
        self._last: Array = np.zeros(spec.num_envs, np.int64)
        self._seen = self._valued = self._last
        self._lines: Array = np.arange(0)

    def look(self, frame: Frame, envs: Array) -> None:
        """Note whom each row shows."""
        self._lines = np.arange(frame.rows)
        flagged = frame.terminated | frame.truncated
        mover = frame.acted.argmax(1)
        ended = np.where(flagged[self._lines, mover], mover, flagged.argmax(1))
        ended = np.where(flagged.any(1), ended, self._last[envs])
        self._seen = np.where(frame.turn >= 0, frame.turn, ended)
        self._valued = np.where(frame.over, ended, self._seen)
        self._last[envs] = self._seen

    def _leaf(self, frame: Frame, k: int) -> Any:
        return self._gathered(frame.obs, k, self._seen)

    def _gathered(self, obs: Any, k: int, slots: Array) -> Any:
        if self._one is not None:
            values = obs[0][k][self._lines, slots]
        else:
            leaf = self._observation.leaves[k]
            values = np.empty((len(slots), *leaf.shape), leaf.dtype)
            for g, leaves in enumerate(obs):
                mine = self._group[slots] == g
                values[mine] = leaves[k][self._lines[mine], self._place[slots[mine]]]
        return tuple(values) if values.dtype == OBJECT else values

    def column(self, values: Array) -> Array:
        """(rows,) of what each agent has, (rows, A)."""
        shown: Array = values[self._lines, self._valued]
        return shown

    # ---- infos

    def infos(self, frame: Frame, envs: Array, earned: dict[str, Any]) -> dict[str, Any]:
        """Of the agents that are shown, with their names, and what others were told."""
        same = self.spec.mode == "same_step" and bool(frame.over.any())
        infos = self._told(frame.side.infos, self._seen, envs) if frame.side.infos else {}
        if same:
            infos.update(self._final(frame, envs))
        infos.update(self._earned(frame, earned))
        infos.update(self._others(frame, envs, earned))
        everywhere: Any = np.ones(frame.rows, np.bool_)
        infos["agent"], infos["_agent"] = self._names[self._seen], everywhere
        infos["live"], infos["_live"] = frame.turn >= 0, everywhere.copy()
        return infos

    def _told(self, told: dict[int, Any], slots: Array, envs: Array) -> dict[str, Any]:
        """The infos of some agents, and what was told under a name that is no agent."""
        side = Side()
        for env, agent in zip(envs.tolist(), self._names[slots], strict=True):
            named = told.get(env)
            if not named:
                continue
            shown = {k: v for k, v in named.items() if k not in self.spec.slot}
            if agent in named:
                shown["row"] = named[agent]
            side.infos[env] = shown
        return flat_infos(self._shown, side, envs)

    def _final(self, frame: Frame, envs: Array) -> dict[str, Any]:
        """The last of episodes that ended, where the row's observation is of the next one."""
        assert frame.final_obs is not None
        over = frame.over
        last: Array = np.empty(frame.rows, object)
        for row in np.flatnonzero(over).tolist():
            slot = int(self._valued[row])
            if frame.final_seen[row, slot] & OBSERVED:
                last[row] = self._observation_of(frame.final_obs, row, slot)
        return {
            "final_obs": last,
            "_final_obs": over.copy(),
            "final_info": self._told(frame.side.final_infos, self._valued, envs),
            "_final_info": over.copy(),
            "final_agent": np.where(over, self._names[self._valued], None),
            "_final_agent": over.copy(),
        }

    def _earned(self, frame: Frame, earned: dict[str, Any]) -> dict[str, Any]:
        """What the shown agents earned that have ended."""
        if not earned:
            return {}
        ended = earned["_episode"].reshape(frame.rows, -1)[self._lines, self._valued]
        if not ended.any():
            return {}
        values = {
            key: np.where(ended, v.reshape(frame.rows, -1)[self._lines, self._valued], 0)
            for key, v in earned["episode"].items()
        }
        return {"episode": values, "_episode": ended}

    def _others(self, frame: Frame, envs: Array, earned: dict[str, Any]) -> dict[str, Any]:
        """What agents were told that no row shows."""
        seen = frame.seen & (REWARDED | FLAGGED) != 0
        seen &= frame.acted.any(1)[:, None]  # a reset tells nothing of that kind
        seen[self._lines, self._valued] = False
        if not seen.any():
            return {}
        same = self.spec.mode == "same_step"
        side = Side()
        for row, slot in np.argwhere(seen).tolist():
            final = same and bool(frame.over[row])
            env, agent = int(envs[row]), self.spec.agents[slot]
            told: dict[str, Any] = {
                "reward": float(frame.reward[row, slot]),
                "terminated": bool(frame.terminated[row, slot]),
                "truncated": bool(frame.truncated[row, slot]),
            }
            bits = frame.final_seen if final else frame.seen
            if bits[row, slot] & OBSERVED:
                obs = frame.final_obs if final else frame.obs
                told["final_obs"] = self._observation_of(obs, row, slot)
            info = (frame.side.final_infos if final else frame.side.infos).get(env, {}).get(agent)
            if info:
                told["info"] = info
            at = row * len(self.spec.agents) + slot
            if earned and earned["_episode"][at]:
                told["episode"] = {key: v[at].item() for key, v in earned["episode"].items()}
            side.infos.setdefault(env, {}).setdefault("row", {"others": {}})["others"][agent] = told
        return flat_infos(self._shown, side, envs)

    def _observation_of(self, obs: Any, row: int, slot: int) -> Any:
        """A copy of one agent's observation."""
        g, k = self.spec.where[slot]
        parts = [leaf[row, k] for leaf in obs[g]]
        return self._observation.build(
            [part.copy() if isinstance(part, np.ndarray) else part for part in parts]
        )

    # ---- to actions

    def take(
        self, into: Actions, actions: Any, envs: Array | None, live: Array, turn: Array
    ) -> None:
        """As in `Rows`; each row is for the agent whose turn it is."""
        everyone = np.arange(self.spec.num_envs) if envs is None else envs
        forget(into, envs)
        parts = batched_parts(self.spec, actions, len(everyone))
        slots = turn[everyone]
        acting = np.flatnonzero(slots >= 0)
        if not self._action.batchable:
            for row in acting.tolist():
                agent = self.spec.agents[int(slots[row])]
                action = copy_info(self._action.build([part[row] for part in parts]))
                into.side.setdefault(int(everyone[row]), {})[agent] = action
            return
        whose, who = everyone[acting], slots[acting]
        for k, part in enumerate(parts):
            for g, leaves in enumerate(into.leaves):
                mine = self._group[who] == g
                leaves[k][whose[mine], self._place[who[mine]]] = part[acting[mine]]

    def pack(self, sampled: Sequence[dict[str, Any]]) -> Any:
        """Actions by agent, one dict for each environment, as rows; any action where none is."""
        return pack_values(self._action, [next(iter(one.values()), None) for one in sampled])
