"""The layouts of a vector, seen from outside: how to give actions and to compare results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from vector_plain import LONE, Record, batchable, filler, pick, put, same, shaped, unbatched

from seer.errors import ActionError, UnknownAgentError

OWN = ("live", "episode", "agent", "others", "final_obs", "final_info", "final_state",
       "final_agent")  # fmt: skip


class Face:
    """A layout.

    Attributes:
        count: environments.
        agents: all of them, in the order of slots.
    """

    def __init__(self, vec: Any) -> None:
        self.vec = vec
        self.agents: list[str] = list(vec.possible_agents)
        self.count: int = vec.num_envs
        self._chosen: dict[Any, Any] = {}

    # ---- actions

    def spaces(self, env: int, agent: str) -> tuple[Any, Any]:
        return self.vec.env_spaces[env][agent]

    def action_space(self, env: int, agent: str) -> Any:
        return self.spaces(env, agent)[1]

    def choose(self, env: int, agent: str, obs: Any, info: Any) -> Any:
        """A random action that the mask allows."""
        space, mask = self.action_space(env, agent), mask_of(obs, info)
        return space.sample() if mask is None else space.sample(np.asarray(mask, np.int8))

    def legal(self, env: int, agent: str, action: Any, record: Record) -> None:
        space = self.action_space(env, agent)
        assert space.contains(action), (space, action)
        mask = mask_of(record.obs[agent], record.infos.get(agent))
        assert mask is None or mask[action - space.start]

    def mask(self, chosen: Any) -> Any:
        return np.array(chosen, np.bool_)

    def give(self, actions: list[dict[str, Any]]) -> Any:
        raise NotImplementedError

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        """What `give` makes, back to one dict for each environment."""
        raise NotImplementedError

    def wrong(self, actions: list[dict[str, Any]]) -> Iterator[tuple[Any, type]]:
        """Illegal actions, each with the error that it must raise."""
        raise NotImplementedError

    def any_action(self, agent: str) -> Any:
        return self.action_space(0, agent).sample()

    def padded(self, actions: list[dict[str, Any]], agents: Any) -> list[Any]:
        """Environment by environment everybody's action, and any for who isn't live."""
        return [one[a] if a in one else self.any_action(a) for one in actions for a in agents]

    # ---- results

    def compare_reset(self, records: list[Record], result: Any, mask: Any = None) -> None:
        obs, infos = result
        envs = list(range(self.count))
        self.observations(records, envs, obs, mask)
        self.infos(records, envs, infos, mask)
        self.alive(records, envs)

    def compare_step(self, records: list[Record], result: Any, envs: Any = None) -> None:
        obs, rewards, terminated, truncated, infos = result
        envs = list(range(self.count)) if envs is None else envs
        self.observations(records, envs, obs)
        self.numbers(records, envs, rewards, np.float64, "rewards")
        self.numbers(records, envs, terminated, np.bool_, "terminated")
        self.numbers(records, envs, truncated, np.bool_, "truncated")
        self.infos(records, envs, infos)
        self.alive(records, envs)
        over = [records[env].over for env in envs]
        assert self.vec.episode_over.dtype == self.vec.was_reset.dtype == np.bool_
        same(self.vec.episode_over.tolist(), over, "episode_over")
        same(self.vec.was_reset.tolist(), [records[env].was_reset for env in envs], "was_reset")
        for row, env in enumerate(envs):
            acted = [a in records[env].acted for a in self.agents]
            same(self.vec.acted[row].tolist(), acted, f"acted in {env}")

    def alive(self, records: list[Record], envs: list[int]) -> None:
        live = self.vec.live
        assert live.dtype == np.bool_
        assert live.shape == (len(envs), len(self.agents))
        for row, env in enumerate(envs):
            same(
                live[row].tolist(), [a in records[env].live for a in self.agents], f"live in {env}"
            )

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        raise NotImplementedError

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        raise NotImplementedError

    def infos(self, records: list[Record], envs: list[int], infos: Any, mask: Any = None) -> None:
        raise NotImplementedError

    def expected(self, record: Record, env: int, agent: str) -> Any:
        """The agent's observation, or what stands for it."""
        return record.obs.get(agent, filler(self.spaces(env, agent)[0]))


class DictFace(Face):
    def give(self, actions: list[dict[str, Any]]) -> Any:
        out = {}
        for agent in self.agents:
            if any(agent in one for one in actions):  # who lives nowhere may be left out
                values = self.padded(actions, [agent])
                out[agent] = put(self.action_space(0, agent), values, len(actions))
        return out

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        return [
            {a: pick(self.action_space(env, a), given[a], env) for a in record.live}
            for env, record in enumerate(records)
        ]

    def wrong(self, actions: list[dict[str, Any]]) -> Iterator[tuple[Any, type]]:
        good = self.give(actions)
        live = next(iter(actions[0]))
        yield {**good, "nobody": good[live]}, UnknownAgentError
        yield {agent: value for agent, value in good.items() if agent != live}, ActionError
        yield {**good, live: "up"}, ActionError
        yield {**good, live: None}, ActionError
        yield 7, ActionError
        if batchable(self.action_space(0, live)):
            yield {**good, live: np.zeros((self.count + 1, *np.shape(good[live])[1:]))}, ActionError
            yield {**good, live: good[live].astype(complex)}, ActionError

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        assert list(obs) == self.agents
        for agent in self.agents:
            shaped(self.spaces(0, agent)[0], obs[agent], len(envs))
            for row, env in enumerate(envs):
                got = pick(self.spaces(env, agent)[0], obs[agent], row)
                same(got, self.expected(records[env], env, agent), f"obs of {agent} in {env}")

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        assert list(given) == self.agents
        for agent, values in given.items():
            assert (values.shape, values.dtype) == ((len(envs),), dtype)
            want = [getattr(records[env], what).get(agent, 0) for env in envs]
            same(values, np.array(want, dtype), f"{what} of {agent}")

    def infos(self, records: list[Record], envs: list[int], infos: Any, mask: Any = None) -> None:
        self.by_agent(infos, {env: records[env].infos for env in envs}, envs)
        finals = {env: records[env].final for env in envs if records[env].final}
        assert ("final_obs" in infos) == ("final_info" in infos) == bool(finals)
        if not finals:
            return
        over = [env in finals for env in envs]
        same(infos["_final_obs"], np.array(over))
        same(infos["_final_info"], np.array(over))
        told = {env: final[1] if final else {} for env, final in finals.items()}
        self.by_agent(infos["final_info"], {env: told.get(env, {}) for env in envs}, envs)
        for agent in self.agents:
            assert infos["final_obs"][agent].dtype == object
            for row, env in enumerate(envs):
                want = finals[env][0].get(agent) if env in finals else None  # type: ignore[index]
                same(infos["final_obs"][agent][row], want, f"final_obs of {agent} in {env}")

    def by_agent(self, infos: Any, told: dict[int, dict[str, Any]], envs: list[int]) -> None:
        for row, env in enumerate(envs):
            for agent in self.agents:
                got = unbatched(infos[agent], row)
                same(got, told[env].get(agent, {}), f"info of {agent} in {env}")
            for name in set(told[env]) - set(self.agents):
                assert infos[f"_{name}"][row], name
                got = infos[name]
                got = unbatched(got, row) if isinstance(got, dict) else got[row]
                same(got, told[env][name], f"info {name} in {env}")


class StackedFace(DictFace):
    def give(self, actions: list[dict[str, Any]]) -> Any:
        out = {}
        for group, members in self.vec.groups.items():
            values = [
                one[a] if a in one else self.any_action(a) for one in actions for a in members
            ]
            out[group] = put(self.action_space(0, members[0]), values, len(actions), len(members))
        return out

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        return [
            {
                a: pick(self.action_space(env, a), given[group], env, k)
                for group, members in self.vec.groups.items()
                for k, a in enumerate(members) if a in record.live
            }
            for env, record in enumerate(records)
        ]  # fmt: skip

    def wrong(self, actions: list[dict[str, Any]]) -> Iterator[tuple[Any, type]]:
        good = self.give(actions)
        live = next(iter(actions[0]))
        (group,) = [g for g, members in self.vec.groups.items() if live in members]
        yield {**good, "nobody": good[group]}, UnknownAgentError
        yield {g: value for g, value in good.items() if g != group}, ActionError
        yield {**good, group: "up"}, ActionError
        yield 7, ActionError
        if batchable(self.action_space(0, live)):
            yield {**good, group: good[group][:-1]}, ActionError
            yield {**good, group: good[group].astype(complex)}, ActionError

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        assert list(obs) == list(self.vec.groups)
        out = {}
        for group, members in self.vec.groups.items():
            space = self.vec.group_spaces[group][0]
            shaped(space, obs[group], len(envs), len(members))
            for k, agent in enumerate(members):
                values = [pick(space, obs[group], row, k) for row in range(len(envs))]
                out[agent] = put(space, values, len(envs))
        super().observations(records, envs, {a: out[a] for a in self.agents})

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        assert list(given) == list(self.vec.groups)
        out = {}
        for group, members in self.vec.groups.items():
            assert given[group].shape == (len(envs), len(members))
            out.update((agent, given[group][:, k]) for k, agent in enumerate(members))
        super().numbers(records, envs, {a: out[a] for a in self.agents}, dtype, what)


class ListFace(Face):
    def give(self, actions: list[dict[str, Any]]) -> Any:
        return actions

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        return list(given)

    def wrong(self, actions: list[dict[str, Any]]) -> Iterator[tuple[Any, type]]:
        first, *rest = actions
        live = next(iter(first))
        yield [{**first, "nobody": first[live]}, *rest], UnknownAgentError
        yield [{a: v for a, v in first.items() if a != live}, *rest], ActionError
        yield [{**first, live: None}, *rest], ActionError
        yield [*actions, first], ActionError
        yield 7, ActionError

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        assert len(obs) == len(envs)
        for row, env in enumerate(envs):
            if mask is None or mask[env]:
                same(obs[row], records[env].obs, f"obs in {env}")

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        kind = {np.float64: float, np.bool_: bool}[dtype]
        for row, env in enumerate(envs):
            assert all(type(value) is kind for value in given[row].values())
            same(given[row], getattr(records[env], what), f"{what} in {env}")

    def infos(self, records: list[Record], envs: list[int], infos: Any, mask: Any = None) -> None:
        for row, env in enumerate(envs):
            if mask is not None and not mask[env]:
                continue
            record = records[env]
            want = {**{a: {} for a in record.obs}, **{k: v for k, v in record.infos.items() if v}}
            same(infos[row], want, f"infos in {env}")
            final = self.vec.final[row]
            assert (final is None) == (record.final is None)
            if record.final:
                same(final["obs"], record.final[0])
                told = {k: v for k, v in final["infos"].items() if v}
                same(told, {k: v for k, v in record.final[1].items() if v})


class FlatFace(Face):
    """One row for each environment and agent."""

    def __init__(self, vec: Any) -> None:
        super().__init__(vec)
        self.count, self.width = vec.num_worlds, vec.agents_per_world
        self.lone = self.agents == [LONE]

    def mask(self, chosen: Any) -> Any:
        return np.repeat(np.array(chosen, np.bool_), self.width)

    def give(self, actions: list[dict[str, Any]]) -> Any:
        values = [
            one[a] if a in one else self.any_action(a) for one in actions for a in self.agents
        ]
        return put(self.vec.single_action_space, values, len(values))

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        space = self.vec.single_action_space
        return [
            {a: pick(space, given, env * self.width + k)
             for k, a in enumerate(self.agents) if a in record.live}
            for env, record in enumerate(records)
        ]  # fmt: skip

    def wrong(self, actions: list[dict[str, Any]]) -> Iterator[tuple[Any, type]]:
        good = self.give(actions)
        yield None, ActionError
        yield "up", ActionError
        if batchable(self.vec.single_action_space):
            yield good[:-1], ActionError
            yield np.concatenate([good, good]), ActionError
            yield good.astype(complex), ActionError

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        space = self.vec.single_observation_space
        shaped(space, obs, len(envs) * self.width)
        for row, env in enumerate(envs):
            for k, agent in enumerate(self.agents):
                got = pick(space, obs, row * self.width + k)
                same(got, self.expected(records[env], env, agent), f"obs of {agent} in {env}")

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        assert (given.shape, given.dtype) == ((len(envs) * self.width,), dtype)
        want = [getattr(records[env], what).get(a, 0) for env in envs for a in self.agents]
        same(given, np.array(want, dtype), what)

    def infos(self, records: list[Record], envs: list[int], infos: Any, mask: Any = None) -> None:
        rows = [(records[env], agent) for env in envs for agent in self.agents]
        if self.lone:
            assert "live" not in infos
            assert "episode" not in infos  # Gymnasium's own wrapper adds it
        else:
            same(infos["live"], np.array([a in record.live for record, a in rows]), "live")
            assert infos["_live"].all()
            earned = [record.earned.get(a) for record, a in rows]
            assert ("episode" in infos) == any(earned)
            if any(earned):
                same(infos["_episode"], np.array([one is not None for one in earned]))
                same(infos["episode"]["r"], np.array([one[0] if one else 0.0 for one in earned]))
                same(infos["episode"]["l"], np.array([one[1] if one else 0 for one in earned]))
                assert (infos["episode"]["t"] >= 0).all()
        finals = [record.final is not None and a in record.acted for record, a in rows]
        assert ("final_obs" in infos) == ("final_info" in infos) == any(finals)
        if any(finals):
            same(infos["_final_obs"], np.array(finals))
            same(infos["_final_info"], np.array(finals))
        for row, (record, agent) in enumerate(rows):
            told = {k: v for k, v in unbatched(infos, row).items() if k not in OWN}
            shared = {k: v for k, v in record.infos.items() if k not in self.agents}
            same(told, {**shared, **record.infos.get(agent, {})}, f"info of row {row}")
            if finals[row]:
                assert record.final
                same(infos["final_obs"][row], record.final[0].get(agent), f"final_obs {row}")
                shared = {k: v for k, v in record.final[1].items() if k not in self.agents}
                want = {**shared, **record.final[1].get(agent, {})}
                same(unbatched(infos["final_info"], row), want, f"final_info {row}")


class TurnsFace(FlatFace):
    """One row for each environment: the agent whose turn it is, at the end the last mover."""

    def give(self, actions: list[dict[str, Any]]) -> Any:
        values = [next(iter(one.values()), self.any_action(self.agents[0])) for one in actions]
        return put(self.vec.single_action_space, values, len(values))

    def taken(self, given: Any, records: list[Record]) -> list[dict[str, Any]]:
        space = self.vec.single_action_space
        return [{a: pick(space, given, env) for a in r.live} for env, r in enumerate(records)]

    def shown(self, record: Record, final: bool = False) -> str:
        if record.over and (final or not record.live):
            return record.acted[0] if record.acted[0] in record.flagged else min(
                record.flagged, key=self.agents.index)  # fmt: skip
        return record.live[0]

    def compare_reset(self, records: list[Record], result: Any, mask: Any = None) -> None:
        if mask is None or all(mask):  # what others go on showing is checked in their next step
            super().compare_reset(records, result, mask)

    def observations(
        self, records: list[Record], envs: list[int], obs: Any, mask: Any = None
    ) -> None:
        space = self.vec.single_observation_space
        shaped(space, obs, len(envs))
        for row, env in enumerate(envs):
            record = records[env]
            want = self.expected(record, env, self.shown(record))
            same(pick(space, obs, row), want, f"obs in {env}")

    def numbers(
        self, records: list[Record], envs: list[int], given: Any, dtype: Any, what: str
    ) -> None:
        assert (given.shape, given.dtype) == ((len(envs),), dtype)
        want = [getattr(records[e], what).get(self.shown(records[e], final=True), 0) for e in envs]
        same(given, np.array(want, dtype), what)

    def infos(self, records: list[Record], envs: list[int], infos: Any, mask: Any = None) -> None:
        same(infos["live"], np.array([bool(records[env].live) for env in envs]), "live")
        for row, env in enumerate(envs):
            record = records[env]
            agent, valued = self.shown(record), self.shown(record, final=True)
            assert infos["agent"][row] == agent
            told = unbatched(infos, row)
            own = {k: v for k, v in told.items() if k not in OWN}
            same(own, record.infos.get(agent, {}), f"info in {env}")
            heard = {a for a in record.flagged if a != valued}
            assert set(told.get("others", {})) == heard
            for other in heard:
                said = told["others"][other]
                assert said["reward"] == record.rewards[other]
                assert said["terminated"] == record.terminated[other]
                assert said["truncated"] == record.truncated[other]
                obs = record.final[0] if record.final else record.obs
                same(said["final_obs"], obs[other])
                same((said["episode"]["r"], said["episode"]["l"]), record.earned[other])
            if record.final:
                assert told["final_agent"] == valued
                same(told["final_obs"], record.final[0][valued])
                same(told["final_info"], record.final[1].get(valued, {}))
            else:
                assert "final_obs" not in told
            assert ("episode" in told) == (valued in record.earned)
            if "episode" in told:
                same((told["episode"]["r"], told["episode"]["l"]), record.earned[valued])


def mask_of(obs: Any, info: Any) -> Any:
    """Which actions are legal, where somebody says it."""
    if isinstance(obs, dict) and "action_mask" in obs:
        return obs["action_mask"]
    return (info or {}).get("action_mask")


FACES: dict[tuple[str, bool], type[Face]] = {
    **{("dict", turns): DictFace for turns in (False, True)},
    **{("stacked", turns): StackedFace for turns in (False, True)},
    **{("list", turns): ListFace for turns in (False, True)},
    ("flat", False): FlatFace,
    ("flat", True): TurnsFace,
}
