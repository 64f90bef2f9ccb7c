"""What was earned, in how many steps and how long."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from seer.errors import ConfigError
from seer.vector.make import make_vec
from seer.vector.statistics import RecordEpisodeStatistics

from .worlds import Ledger

NAMES = ("ally_0", "ally_1", "foe_0")
KINDS: list[dict[str, Any]] = [
    {"horizon": 3},
    {"horizon": 5, "dies": {"ally_1": 2}},
    {"horizon": 4, "dies": {"ally_0": 1, "foe_0": 3}, "born": {"ally_1": 2}},
    {"horizon": 9, "dies": {"ally_0": 1, "ally_1": 2, "foe_0": 2}},
]
WORLDS = [partial(Ledger, tag=k, names=NAMES, **kind) for k, kind in enumerate(KINDS)]


def alone(world: Any) -> dict[str, list[Any]]:
    """(return, length) of everybody in one episode of a single environment."""
    env = world()
    env.reset()
    own: dict[str, list[Any]] = {name: [0.0, 0] for name in (*NAMES, "ally", "foe", "all")}
    while env.agents:
        before = list(env.agents)
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, 1))
        teams = {name.split("_")[0] for name in before} | {"all"}
        for agent, reward in rewards.items():
            for whose in (agent, agent.split("_")[0], "all"):
                own[whose][0] += reward
        for whose in (*before, *teams):
            own[whose][1] += 1
    return own


WANT = [alone(world) for world in WORLDS]
LIFE = [  # the step in which each agent's episode ends, counted from 1
    {name: kind.get("dies", {}).get(name, kind["horizon"]) for name in NAMES} for kind in KINDS
]


def ones(vec: Any) -> Any:
    """Action 1 for everybody."""
    rows = len(vec.live)
    if vec.layout == "list":
        return [{vec.agents[s]: 1 for s in np.flatnonzero(row)} for row in vec.live]
    if vec.layout == "stacked":
        return {g: np.ones((rows, len(m)), int) for g, m in vec.groups.items()}
    return {agent: np.ones(rows, int) for agent in vec.agents}


def a_vec(layout: str, **more: Any) -> Any:
    return make_vec(WORLDS, layout=layout, backend="serial", probe=False, **more)


def told(vec: Any, infos: Any) -> dict[tuple[int, str], tuple[float, int]]:
    """Everything that the infos say: (environment, who) -> (return, length)."""
    out = {}
    for row, env in enumerate(vec.env_ids.tolist()):
        if vec.layout == "list":
            found = {a: i["episode"] for a, i in infos[row].items()
                     if isinstance(i, dict) and "episode" in i}  # fmt: skip
            if "episode" in infos[row]:
                found["all"] = infos[row]["episode"]
                found.update(found["all"]["groups"])
            for who, entry in found.items():
                assert type(entry["r"]) is float and type(entry["l"]) is int
                out[env, who] = entry["r"], entry["l"]
            continue
        for agent in vec.agents:
            if infos[agent].get("_episode", np.zeros(99))[row]:
                entry = infos[agent]["episode"]
                out[env, agent] = entry["r"][row], entry["l"][row]
        if infos.get("_episode", np.zeros(99))[row]:
            for who, entry in [("all", infos["episode"]), *infos["episode"]["groups"].items()]:
                assert entry["r"].dtype == np.float64 and entry["l"].dtype == np.int64
                assert 0 <= entry["t"][row] < 60
                out[env, who] = entry["r"][row], entry["l"][row]
    return out


@pytest.mark.parametrize("layout", ["dict", "stacked", "list"])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_returns_and_lengths_are_those_of_single_environments(layout: str, mode: str) -> None:
    vec = RecordEpisodeStatistics(a_vec(layout, autoreset=mode), buffer_length=7)
    vec.reset(seed=0)
    clock = [0] * len(WORLDS)
    episodes = 0
    for _ in range(20):
        *_, infos = vec.step(ones(vec))
        want = {}
        for env in range(len(WORLDS)):
            if vec.was_reset[env]:
                clock[env] = 0
                continue
            clock[env] += 1
            over = vec.episode_over[env]
            episodes += over
            for name in NAMES:
                if LIFE[env][name] == clock[env]:
                    want[env, name] = tuple(WANT[env][name])
            if over:
                for who in ("ally", "foe", "all"):
                    want[env, who] = tuple(WANT[env][who])
                clock[env] = 0 if mode == "same_step" else clock[env]
        assert told(vec, infos) == want
    assert vec.episode_count == episodes > 10
    assert len(vec.return_queue) == len(vec.length_queue) == len(vec.time_queue) == 7
    assert set(zip(vec.return_queue, vec.length_queue, strict=True)) <= {
        tuple(want["all"]) for want in WANT
    }
    assert set(vec.agent_queues["foe_0"].l) <= {want["foe_0"][1] for want in WANT}
    assert set(vec.group_queues["ally"].r) <= {want["ally"][0] for want in WANT}


def test_a_reset_by_hand_begins_anew_only_there() -> None:
    vec = RecordEpisodeStatistics(a_vec("dict", autoreset="disabled"))
    vec.reset()
    for _ in range(2):
        vec.step(ones(vec))
    vec.reset(options={"reset_mask": np.array([True, False, False, True])})
    found = {}
    for _ in range(2):
        *_, infos = vec.step(ones(vec))
        found.update(told(vec, infos))
    assert found[3, "all"] == tuple(WANT[3]["all"]), "began anew"
    assert found[2, "all"] == tuple(WANT[2]["all"]), "went on"
    assert (0, "all") not in found, "environment 0 is two steps into its new episode of three"


def test_asynchronous_environments() -> None:
    vec = RecordEpisodeStatistics(a_vec("dict", batch_size=2))
    vec.async_reset(seed=0)
    found: dict[Any, set[Any]] = {}
    for _ in range(30):
        *_, infos = vec.recv()
        for who, what in told(vec, infos).items():
            found.setdefault(who, set()).add(what)
        vec.send(ones(vec), vec.env_ids)
    vec.close()
    for env, want in enumerate(WANT):
        for who in (*NAMES, "all"):
            assert found[env, who] == {tuple(want[who])}


def test_an_agent_that_comes_back_lives_anew() -> None:
    class Again(Ledger):
        """Agent x_1 dies in step 1 and is back in step 2."""

        def step(self, actions: Any) -> Any:
            out = super().step(actions)
            if self.t == 2:
                self.agents.append("x_1")
                for values, value in zip(
                    out, (self.look("x_1"), 0.0, False, False, {}), strict=True
                ):
                    values["x_1"] = value
            return out

    vec = RecordEpisodeStatistics(
        make_vec([partial(Again, names=("x_0", "x_1"), dies={"x_1": 1}, horizon=4)], layout="dict",
                 backend="serial", probe=False)
    )  # fmt: skip
    vec.reset()
    found = [told(vec, vec.step(ones(vec))[4]).get((0, "x_1")) for _ in range(4)]
    assert found == [(11.0, 1), None, None, (13.0 + 14.0, 2)]


def test_nothing_is_added_where_nobody_ends() -> None:
    for layout in ("dict", "list"):
        vec = RecordEpisodeStatistics(
            make_vec([partial(Ledger, horizon=9)], layout=layout, backend="serial", probe=False)
        )
        vec.reset()
        *_, infos = vec.step(ones(vec))
        nothing = {agent: {} for agent in vec.agents}
        assert infos == (nothing if layout == "dict" else [nothing])


def test_what_it_refuses() -> None:
    with pytest.raises(ConfigError, match=r"buffer_length=….*from 1, got 0"):
        RecordEpisodeStatistics(a_vec("dict"), buffer_length=0)
    with pytest.raises(ConfigError, match=r"layout of .*got 'flat'; Gymnasium's vector wrappers"):
        RecordEpisodeStatistics(
            make_vec("CartPole-v1", 2, layout="flat", backend="serial", probe=False)
        )
    with pytest.raises(ConfigError, match=r"that seer.make_vec made, got .*Ledger; it goes around"):
        RecordEpisodeStatistics(Ledger())


def test_the_rest_is_the_vectors_own() -> None:
    inner = a_vec("dict")
    with RecordEpisodeStatistics(inner) as vec:
        assert vec.unwrapped is inner and vec.vec is inner
        assert vec.num_envs == 4 and vec.agents == list(NAMES)
        assert vec.observation_space("ally_0") is inner.observation_space("ally_0")
        assert "RecordEpisodeStatistics" in repr(vec) and "Ledger" in repr(vec)
        with pytest.raises(AttributeError, match="no_such_thing"):
            vec.no_such_thing  # noqa: B018


def test_taking_turns() -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    kinds = [KINDS[0], KINDS[1], KINDS[3]]
    games = [
        lambda k=k, kind=kind: parallel_to_aec(Ledger(tag=k, names=NAMES, **kind))
        for k, kind in enumerate(kinds)
    ]
    wants = [alone(game) for game in (partial(Ledger, tag=k, names=NAMES, **kind)
                                      for k, kind in enumerate(kinds))]  # fmt: skip
    for layout in ("dict", "stacked", "list"):
        vec = RecordEpisodeStatistics(make_vec(games, layout=layout, backend="serial", probe=False))
        vec.reset(seed=0)
        found: dict[Any, list[Any]] = {}
        for _ in range(40):
            *_, infos = vec.step(vec.sample_actions())
            for who, what in told(vec, infos).items():
                found.setdefault(who, []).append(what)
        for env, want in enumerate(wants):
            for name in NAMES:
                assert set(found[env, name]) == {tuple(want[name])}, (layout, env, name)
            for team in ("ally", "foe", "all"):
                assert {r for r, _ in found[env, team]} == {want[team][0]}
            moves = sum(want[name][1] for name in NAMES)
            assert {steps for _, steps in found[env, "all"]} == {moves}


def test_in_processes() -> None:
    for layout in ("dict", "list"):
        with RecordEpisodeStatistics(
            make_vec(WORLDS, layout=layout, backend="process", workers=2, probe=False)
        ) as vec:
            vec.reset(seed=0)
            found: dict[Any, set[Any]] = {}
            for _ in range(12):
                *_, infos = vec.step(ones(vec))
                for who, what in told(vec, infos).items():
                    found.setdefault(who, set()).add(what)
        for env, want in enumerate(WANT):
            for who in (*NAMES, "all"):
                assert found[env, who] == {tuple(want[who])}
