"""The layouts dict, stacked and list: what goes in and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..types import Array
from .base import Core
from .contract import FLAGGED, OBSERVED, REWARDED, Group
from .frames import Frame
from .infos import batch_infos, final_entries
from .intake import take_agents, take_groups, take_list
from .quick import usual_lists
from .sampling import sample, sample_worlds
from .spaces import VectorSpaces

__all__ = ["DictVectorEnv", "ListVectorEnv", "StackedVectorEnv", "VectorEnv"]

Result = tuple[Any, Any, Any, Any, Any]


class VectorEnv(Core):
    """A vector of multi-agent environments; see `seer.make_vec`.

    Args:
        backend: owns the environments.
        copy: False: what comes back is read-only and valid until the next call.
        batch_size: how many environments a `recv` waits for; all by default.

    Attributes:
        agents, possible_agents: names in slot order.
        groups: group -> its agents.
        observation_spaces, action_spaces: agent -> the space of one environment.
        batched_observation_spaces, batched_action_spaces: agent -> the space of all N.
        group_spaces: group -> (observation space, action space) of one of its agents.
        env_spaces: env_spaces[i][agent] -> (observation space, action space).
    """

    def __init__(self, backend: Any, *, copy: bool = True, batch_size: int | None = None) -> None:
        self._begin(backend, copy=copy, batch_size=batch_size)
        self.num_envs = self._count
        self._drawn: dict[Any, Any] = {}  # what `sample_actions` keeps
        self._spaces = VectorSpaces(backend.spec)
        self.observation_spaces = self._spaces.observation
        self.action_spaces = self._spaces.action
        self.batched_observation_spaces = self._spaces.batched_observation
        self.batched_action_spaces = self._spaces.batched_action
        self.group_spaces = self._spaces.groups
        self.env_spaces = self._spaces.envs

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Begin episodes.

        Args:
            seed: environment i gets seed + i; a list gives each its own; None continues.
            options: for the environments; ``options["reset_mask"]``, (N,) bool, resets only
                some. It is not changed.

        Returns:
            Observations and infos. The rows of those that are not reset are as they were; unless
            autoreset is disabled, with what was written into the last results meanwhile.
        """
        shown: tuple[Any, Any] = self._present_reset(self._reset(seed, options))
        return shown

    def step(self, actions: Any) -> Result:
        """Step every environment.

        Args:
            actions: in the layout's form.

        Returns:
            Observations, rewards, terminations, truncations, infos.

        Raises:
            ActionError: a live agent has no action, or an action has a wrong shape or dtype.
            UnknownAgentError: an action for an agent that doesn't exist.
            StateError: before the first reset, or after an error.
            Exception: whatever an environment raises.
        """
        shown: Result = self._present(self._step(actions))
        return shown

    def recv(self) -> Result:
        """The results of the `batch_size` environments that have been ready longest.

        Returns:
            As `step`, with `batch_size` rows, the environments in ascending order;
            ``infos["env_id"]`` and `env_ids` name them.
        """
        shown: Result = self._present(self._recv())
        if self.layout != "list":
            shown[4]["env_id"] = self.env_ids.copy()
        return shown

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's action space, always the same object."""
        return self.action_spaces[agent]

    def seed_spaces(self, seed: int) -> None:
        """Seed every action and observation space, so that what they sample can be repeated."""
        self._spaces.seed(seed)

    def sample_actions(self) -> Any:
        """Random legal actions in the layout's form.

        Honours who is live, and action masks in observations or infos.
        """
        if self._spec.kind == "native":
            return self._pack_worlds(sample_worlds(self, self._drawn))
        return self._pack_sample(sample(self))

    def torch(self) -> Any:
        """The same vector with CPU tensors in place of arrays, without a copy.

        Raises:
            MissingDependencyError: torch is not installed.
        """
        from .torch import TorchVectorEnv

        return TorchVectorEnv(self)

    @property
    def unwrapped(self) -> VectorEnv:
        """The vector itself."""
        return self

    def _pack_worlds(self, sampled: dict[str, Array]) -> Any:
        """Sampled actions of native worlds, by group, in the layout's form."""
        of = {
            agent: sampled[group.name][:, k]
            for group in self._spec.groups
            for k, agent in enumerate(group.agents)
        }
        return {agent: of[agent] for agent in self.possible_agents}

    def _pack_sample(self, sampled: list[dict[str, Any]]) -> Any:
        """Sampled actions, one dict for each row, in the layout's form."""
        raise NotImplementedError

    def _value(self, group: Group, leaves: list[Any], where: Any) -> Any:
        """The observations of a group's agents at `where`, put together."""
        tree = group.observation
        if tree.single:
            return _batched(leaves[0][where])
        return tree.build([_batched(leaf[where]) for leaf in leaves])

    def _infos(self, frame: Frame) -> dict[str, Any]:
        side = frame.side
        infos: dict[str, Any] = batch_infos(self._spec, side, self.env_ids)
        if self._spec.mode == "same_step" and frame.over.any():
            infos.update(final_entries(self._spec, frame, self.env_ids))
        return infos


def _batched(values: Any) -> Any:
    """An array, or a tuple of what can't be batched."""
    if values.dtype != object:
        return values
    if values.ndim == 1:
        return tuple(values)
    return tuple(tuple(row) for row in values)


class DictVectorEnv(VectorEnv):
    """Everything by agent: ``{agent: array (N, …)}``, always for all of them.

    Actions are agent -> (N, …), or a list of one dict for each environment. An agent that lives
    nowhere may be left out. Turn-based environments also take (N,) actions, one for each.

    Attributes: as `seer.vector.VectorEnv`.
    """

    layout = "dict"

    def _take(self, actions: Any, envs: Array | None) -> None:
        if isinstance(actions, Mapping):
            take_agents(self, actions, envs)
        else:
            take_list(self, actions, envs)

    def _present_reset(self, frame: Frame) -> tuple[Any, Any]:
        return self._observations(frame), self._infos(frame)

    def _present(self, frame: Frame) -> Result:
        agents = self.possible_agents
        return (
            self._observations(frame),
            dict(zip(agents, frame.reward.T, strict=True)),
            dict(zip(agents, frame.terminated.T, strict=True)),
            dict(zip(agents, frame.truncated.T, strict=True)),
            self._infos(frame),
        )

    def _observations(self, frame: Frame) -> dict[str, Any]:
        groups = self._spec.groups
        if len(groups) == 1 and groups[0].observation.single:
            leaf = frame.obs[0][0]
            if leaf.dtype != object:
                return dict(zip(groups[0].agents, leaf.swapaxes(0, 1), strict=True))
        out: dict[str, Any] = {}
        for group, leaves in zip(groups, frame.obs, strict=True):
            for k, agent in enumerate(group.agents):
                out[agent] = self._value(group, leaves, np.s_[:, k])
        if len(groups) > 1:
            return {agent: out[agent] for agent in self.possible_agents}
        return out

    def _pack_sample(self, sampled: list[dict[str, Any]]) -> Any:
        from .sampling import by_agent

        return by_agent(self, sampled)


class StackedVectorEnv(VectorEnv):
    """Everything by group: ``{group: array (N, A_g, …)}``; rewards and flags (N, A_g).

    Actions are group -> (N, A_g, …).

    Attributes: as `seer.vector.VectorEnv`.
    """

    layout = "stacked"

    def _take(self, actions: Any, envs: Array | None) -> None:
        take_groups(self, actions, envs)

    def _present_reset(self, frame: Frame) -> tuple[Any, Any]:
        return self._observations(frame), self._infos(frame)

    def _present(self, frame: Frame) -> Result:
        return (
            self._observations(frame),
            self._by_group(frame.reward),
            self._by_group(frame.terminated),
            self._by_group(frame.truncated),
            self._infos(frame),
        )

    def _observations(self, frame: Frame) -> dict[str, Any]:
        return {
            group.name: self._value(group, leaves, np.s_[:])
            for group, leaves in zip(self._spec.groups, frame.obs, strict=True)
        }

    def _by_group(self, values: Array) -> dict[str, Array]:
        out = {}
        for group in self._spec.groups:
            out[group.name] = part = values[:] if group.whole else values[:, group.slots]
            if not self.copy:
                part.flags.writeable = False
        return out

    def _pack_worlds(self, sampled: dict[str, Array]) -> Any:
        return sampled

    def _pack_sample(self, sampled: list[dict[str, Any]]) -> Any:
        from .sampling import by_group

        return by_group(self, sampled)


class ListVectorEnv(VectorEnv):
    """One dict for each environment, with exactly the agents that it reported.

    Actions are a list of one dict for each environment, agent -> action.

    Attributes: as `seer.vector.VectorEnv`, and
        final: one entry for each row; None, or in same-step mode, where an environment ended in
            this step, {"obs": …, "infos": …, "state": …}: the last of the old episode.
    """

    layout = "list"

    def __init__(self, backend: Any, *, copy: bool = True, batch_size: int | None = None) -> None:
        super().__init__(backend, copy=copy, batch_size=batch_size)
        self.final: list[dict[str, Any] | None] = [None] * self.num_envs

    def _take(self, actions: Any, envs: Array | None) -> None:
        take_list(self, actions, envs)

    def _present_reset(self, frame: Frame) -> tuple[Any, Any]:
        self.final = [None] * frame.rows
        obs = self._lists(frame, frame.obs, frame.seen, "obs")
        return obs, self._list_infos(frame, obs, frame.side.infos)

    def _present(self, frame: Frame) -> Result:
        spec = self._spec
        if frame.usual and len(spec.groups) == 1 and spec.groups[0].observation.single:
            self.final = [None] * frame.rows
            out: Result = usual_lists(spec.agents, frame.obs[0][0], frame.reward, frame.results)
            frame.results = None
            for env, told in frame.side.infos.items():
                out[4][env].update(told)
            return out
        obs = self._lists(frame, frame.obs, frame.seen, "obs")
        rewards, terms, truncs = self._numbers(frame)
        infos = self._list_infos(frame, obs, frame.side.infos)
        self.final = [None] * frame.rows
        if self._spec.mode == "same_step" and frame.over.any():
            self._finish(frame)
        return obs, rewards, terms, truncs, infos

    def _lists(self, frame: Frame, leaves: Any, seen: Array, what: str) -> list[dict[str, Any]]:
        """Observations by row and agent."""
        spec = self._spec
        out: list[dict[str, Any]] = []
        everybody = bool((seen & OBSERVED).all())
        if everybody and len(spec.groups) == 1 and spec.groups[0].observation.single:
            names, leaf = spec.agents, leaves[0][0]
            out = [dict(zip(names, row, strict=True)) for row in leaf]
        else:
            for row in range(frame.rows):
                values = {}
                for slot in np.flatnonzero(seen[row] & OBSERVED).tolist():
                    g, k = spec.where[slot]
                    tree = spec.groups[g].observation
                    parts = [leaf[row, k] for leaf in leaves[g]]
                    agent = self._named(row, slot, before=what == "final_obs")
                    values[agent] = parts[0] if tree.single else tree.build(parts)
                out.append(values)
        for row, env in enumerate(self.env_ids.tolist()) if frame.side.extras else ():
            out[row].update(frame.side.extras.get(env, {}).get(what, {}))
        return out

    def _numbers(self, frame: Frame) -> tuple[Any, Any, Any]:
        """Rewards, terminations and truncations by row and agent."""
        names = self._spec.agents
        out = []
        for field, bit, extra in (
            ("reward", REWARDED, "rewards"),
            ("terminated", FLAGGED, "terminations"),
            ("truncated", FLAGGED, "truncations"),
        ):
            values, seen = getattr(frame, field), frame.seen & bit
            if seen.all():
                rows = [dict(zip(names, row, strict=True)) for row in values.tolist()]
            else:
                rows = [
                    {self._named(k, s, True): row[s] for s in np.flatnonzero(seen[k]).tolist()}
                    for k, row in enumerate(values.tolist())
                ]
            for k, env in enumerate(self.env_ids.tolist()) if frame.side.extras else ():
                rows[k].update(frame.side.extras.get(env, {}).get(extra, {}))
            out.append(rows)
        return out[0], out[1], out[2]

    def _list_infos(
        self, frame: Frame, obs: list[dict[str, Any]], told: dict[int, dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """An info for everybody observed, and what else was told."""
        out: list[dict[str, Any]] = [{agent: {} for agent in row} for row in obs]
        if told:
            for row, env in enumerate(self.env_ids.tolist()):
                out[row].update(told.get(env, ()))
        return out

    def _finish(self, frame: Frame) -> None:
        """What episodes ended with."""
        obs = self._lists(frame, frame.final_obs, frame.final_seen, "final_obs")
        infos = self._list_infos(frame, obs, frame.side.final_infos)
        envs = self.env_ids.tolist()
        for row in np.flatnonzero(frame.over).tolist():
            self.final[row] = {
                "obs": obs[row], "infos": infos[row],
                **({"state": state} if (state := frame.side.final_state.get(envs[row])) is not None
                   else {}),
            }  # fmt: skip

    def _pack_worlds(self, sampled: dict[str, Array]) -> Any:
        of = list(super()._pack_worlds(sampled).values())
        names = self.possible_agents
        return [
            {names[slot]: of[slot][row] for slot in np.flatnonzero(live).tolist()}
            for row, live in enumerate(self.live)
        ]

    def _pack_sample(self, sampled: list[dict[str, Any]]) -> Any:
        return sampled
