"""Native worlds against single environments of the same model, bit for bit."""

import functools
import sys

import numpy as np
import pytest

import seer
from seer import PoolConfig
from seer.errors import (
    ActionError,
    ClosedError,
    ConfigError,
    FaultError,
    SnapshotError,
    StateError,
)
from seer.vector.native_setup import choose_pool

from .native_models import Crowd, Fragile

MODES = ("next_step", "same_step", "disabled")
POOLS = (PoolConfig(1), PoolConfig(2, "worlds", share=True), PoolConfig(2, "lanes", share=True))
UAV = {"drones": 6, "density": 700.0, "horizon": 40, "battery": 500.0}
CROWD = {"count": 5, "horizon": 9}


class Singles:
    """The reference: one environment for each world, and every value by hand.

    Gives what a frame says: observations with fillers, rewards, flags, who lived and who lives.
    """

    def __init__(self, make, count, mode, filler):
        self.envs = [make() for _ in range(count)]
        self.mode, self.filler = mode, filler
        self.agents = self.envs[0].possible_agents
        self.live = [[] for _ in range(count)]
        self.final = {}

    def _block(self, by_agent):
        return np.stack([by_agent.get(agent, self.filler) for agent in self.agents])

    def reset(self, seed=None, only=None):
        blocks = []
        for k, env in enumerate(self.envs):
            if only is None or only[k]:
                obs, _ = env.reset(seed=None if seed is None else seed + k)
                self.live[k] = list(env.agents)
                blocks.append(self._block(obs))
            else:
                blocks.append(None)
        return blocks

    def step(self, actions, only=None):
        """Actions (N, A, …); a dict of what each world gave."""
        rows, self.final = [], {}
        for k, env in enumerate(self.envs):
            row = {"infos": {}, "over": False, "was_reset": False}
            row["reward"] = np.zeros(len(self.agents))
            for name in ("terminated", "truncated", "acted"):
                row[name] = np.zeros(len(self.agents), bool)
            if only is not None and k not in only:
                rows.append(None)
                continue
            if not self.live[k]:
                obs, _ = env.reset()
                row["was_reset"] = True
            else:
                acts = {a: actions[k, self.agents.index(a)] for a in self.live[k]}
                obs, rewards, terms, truncs, infos = env.step(acts)
                for agent in acts:
                    at = self.agents.index(agent)
                    row["reward"][at] = rewards[agent]
                    row["terminated"][at], row["truncated"][at] = terms[agent], truncs[agent]
                    row["acted"][at] = True
                row["infos"] = {a: i for a, i in infos.items() if i}
                row["over"] = not env.agents
                if row["over"] and self.mode == "same_step":
                    self.final[k] = self._block(obs), row.pop("infos"), env.state()
                    row["infos"] = {}
                    obs, _ = env.reset()
            self.live[k] = list(env.agents)
            row["live"] = np.isin(self.agents, self.live[k])
            row["obs"] = self._block(obs)
            rows.append(row)
        return rows


def compare(vec, got, want):
    """What a stacked vector returned, and what the single environments did."""
    obs, rewards, terms, truncs, infos = got
    names = ("obs", "reward", "terminated", "truncated")
    for name, value in zip(names, (obs, rewards, terms, truncs), strict=True):
        (array,) = value.values()
        for k, row in zip(vec.env_ids, array, strict=True):
            assert row.dtype == np.asarray(want[k][name]).dtype
            np.testing.assert_array_equal(row, want[k][name], err_msg=f"{name} of world {k}")
    for r, k in enumerate(vec.env_ids):
        assert (vec.live[r] == want[k]["live"]).all()
        assert (vec.acted[r] == want[k]["acted"]).all()
        assert vec.episode_over[r] == want[k]["over"]
        assert vec.was_reset[r] == want[k]["was_reset"]
        told = {
            agent: {key: infos[agent][key][r] for key in infos[agent]
                    if key[0] != "_" and infos[agent]["_" + key][r]}
            for agent in vec.agents
        }  # fmt: skip
        assert {a: i for a, i in told.items() if i} == want[k]["infos"]


def drawn(rng, vec):
    """Actions for everybody; for who is not live what would be refused of the living."""
    (group,) = vec.group_spaces
    space = vec.group_spaces[group][1]
    shape = (vec.num_envs, len(vec.agents), *space.shape)
    if space.dtype.kind == "f":
        actions = rng.uniform(-1.3, 1.3, shape).astype(space.dtype)  # some are clipped
        actions[~vec.live] = np.nan
    else:
        actions = rng.integers(space.start, space.start + space.n, shape)
        actions[~vec.live] = -100
    return {group: actions}


MODELS = {
    "coverage": ("uav_swarm", UAV, np.zeros(59, "f4")),
    "rendezvous": ("uav_swarm", {**UAV, "task": "rendezvous", "shared": False}, np.zeros(45, "f4")),
    "discrete": ("uav_swarm", {**UAV, "discrete": True}, np.zeros(59, "f4")),
    "crowd": (Crowd, CROWD, np.ones(4, "f4")),
    "unborn": (Crowd, {**CROWD, "unborn": 0.5, "choices": 4}, np.ones(4, "f4")),
}


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_worlds_are_single_environments(model, mode, pool):
    env, kwargs, filler = MODELS[model]
    plain = Singles(functools.partial(seer.make, env, **kwargs), 4, mode, filler)
    rng = np.random.default_rng(5)
    ended = 0
    with seer.make_vec(
        env, 4, layout="stacked", groups="all", autoreset=mode, pool=pool, **kwargs
    ) as vec:
        assert type(vec._backend).__name__ == "Native"
        obs, infos = vec.reset(seed=11)
        assert vec.live.any(axis=1).all()
        np.testing.assert_array_equal(obs["agents"], np.stack(plain.reset(11)))
        assert infos == {agent: {} for agent in vec.agents}
        for _ in range(130):
            actions = drawn(rng, vec)
            got = vec.step(actions)
            compare(vec, got, plain.step(actions["agents"]))
            over = vec.episode_over
            ended += over.sum()
            if mode == "same_step" and over.any():
                same_finals(vec, got[4], plain.final)
            if mode == "disabled" and over.any():
                with pytest.raises(StateError, match="disabled"):
                    vec.step(drawn(rng, vec))
                while over.any():  # of the unborn a world may have none
                    obs, _ = vec.reset(options={"reset_mask": over})
                    for k, block in enumerate(plain.reset(only=over)):
                        if block is not None:
                            np.testing.assert_array_equal(obs["agents"][k], block)
                    over = ~vec.live.any(axis=1)
    assert ended > 8


def same_finals(vec, infos, finals):
    over = vec.episode_over
    assert (infos["_final_obs"] == over).all() and (infos["_final_info"] == over).all()
    for k, (block, told, state) in finals.items():
        for at, agent in enumerate(vec.agents):
            if vec.acted[k, at]:
                np.testing.assert_array_equal(infos["final_obs"][agent][k], block[at])
            else:
                assert infos["final_obs"][agent][k] is None
            assert vec.acted[k, at] == infos["final_obs"]["_" + agent][k]
            mine = infos["final_info"].get(agent, {})
            assert {key: mine[key][k] for key in mine if key[0] != "_" and mine["_" + key][k]} == (
                told.get(agent, {})
            )
        np.testing.assert_array_equal(infos["final_state"][k], state)


def test_a_death_has_its_cause():
    seen = set()
    with seer.make_vec("uav_swarm", 8, layout="stacked", collision=3.0, **UAV) as vec:
        vec.reset(seed=0)
        vec.seed_spaces(0)
        for _ in range(40):
            *_, terms, _, infos = vec.step(vec.sample_actions())
            for at, agent in enumerate(vec.agents):
                dead = terms["drone"][:, at]
                assert ("cause" in infos[agent]) == dead.any()
                if dead.any():
                    assert (infos[agent]["_cause"] == dead).all()
                    seen.update(infos[agent]["cause"][dead])
    assert seen == {"collision", "flat battery"}


@pytest.mark.parametrize("mode", MODES[:2])
def test_some_at_a_time_is_all_at_once(mode):
    plain = Singles(functools.partial(seer.make, Crowd, **CROWD), 6, mode, np.ones(4, "f4"))
    rng = np.random.default_rng(0)
    steps = np.zeros(6, int)
    with seer.make_vec(Crowd, 6, layout="stacked", batch_size=2, autoreset=mode, **CROWD) as vec:
        vec.async_reset(seed=3)
        blocks = plain.reset(3)
        actions = np.zeros((6, 5, 2), "f4")
        for turn in range(90):
            got = vec.recv()
            envs = vec.env_ids
            assert envs.tolist() == got[4]["env_id"].tolist() == sorted(envs)
            if turn < 3:
                for r, k in enumerate(envs):
                    np.testing.assert_array_equal(got[0]["agent"][r], blocks[k])
            else:
                want = plain.step(actions, envs)
                compare(vec, got, want)
            steps[envs] += 1
            batch = rng.uniform(-1, 1, (2, 5, 2)).astype("f4")
            actions[envs] = batch
            vec.send({"agent": batch}, envs)
            batch[:] = np.nan  # it was read
    assert (steps == 30).all()


def test_the_oldest_come_first():
    with seer.make_vec(Crowd, 5, layout="stacked", batch_size=2, **CROWD) as vec:
        vec.async_reset(seed=0)
        order = []
        for _ in range(10):
            vec.recv()
            order += vec.env_ids.tolist()
            vec.send({"agent": np.zeros((2, 5, 2), "f4")})
    assert order == [0, 1, 2, 3, 0, 4, 1, 2, 0, 3, 1, 4, 0, 2, 1, 3, 0, 4, 1, 2] or (
        all(abs(order.count(k) - 4) <= 1 for k in range(5))
    )


def test_seeds():
    with seer.make_vec("uav_swarm", 3, drones=2, layout="stacked") as vec:
        vec.reset(seed=0)
        assert vec.np_random_seed == (0, 1, 2)
        vec.reset(seed=[7, None, 9])
        assert vec.np_random_seed == (7, 1, 9)
        assert vec.get_attr("engine")[1].episodes[0] == 1
        vec.reset(seed=50, options={"reset_mask": np.array([False, True, False])})
        assert vec.np_random_seed == (7, 51, 9)
        with pytest.raises(ConfigError, match="seed"):
            vec.reset(seed=2**63)
        vec.step(vec.sample_actions())  # nothing has happened
    with seer.make_vec("uav_swarm", 2, drones=2) as a, seer.make_vec("uav_swarm", 2, drones=2) as b:
        first, _ = a.reset()
        other, _ = b.reset()
        assert len({*a.np_random_seed, *b.np_random_seed}) == 4
        assert (first["drone_0"] != other["drone_0"]).any()
        again, _ = b.reset(seed=list(a.np_random_seed))
        np.testing.assert_array_equal(first["drone_0"], again["drone_0"])


def test_the_horizon_is_an_option_of_each_world():
    with seer.make_vec("uav_swarm", 3, drones=2, layout="stacked", horizon=4) as vec:
        vec.reset(seed=0, options={"horizon": 2})
        assert ends(vec, 8) == [[1, 6], [1, 6], [1, 6]]
    with seer.make_vec(
        "uav_swarm", 2, drones=2, layout="stacked", horizon=4, autoreset_options="last"
    ) as vec:
        vec.reset(seed=0)
        vec.reset(options={"horizon": 2, "reset_mask": np.array([False, True])})
        assert ends(vec, 9) == [[3, 8], [1, 4, 7]]
    asked = []

    def longer(env, episode):
        asked.append((env, episode))
        return {"horizon": episode + 1 + env}

    with seer.make_vec(
        "uav_swarm",
        2,
        drones=2,
        layout="stacked",
        horizon=1,
        autoreset_options=longer,
        autoreset="same_step",
    ) as vec:
        vec.reset(seed=0)
        assert ends(vec, 9) == [[0, 2, 5], [0, 3, 7]]
    assert asked == [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]
    with seer.make_vec(
        "uav_swarm", 2, drones=2, layout="stacked", autoreset_options={"horizon": 3}, horizon=2
    ) as vec:
        vec.reset(seed=0)
        assert ends(vec, 9) == [[1, 5], [1, 5]]


def ends(vec, steps):
    """In which of the next steps each world ends."""
    out = [[] for _ in range(vec.num_envs)]
    for t in range(steps):
        vec.step(vec.sample_actions())
        for env in np.flatnonzero(vec.episode_over):
            out[env].append(t)
    return out


def test_unknown_options_warn_and_bad_ones_are_errors():
    with seer.make_vec("uav_swarm", 2, drones=2, layout="stacked") as vec:
        vec.reset(seed=0)
        with pytest.warns(UserWarning, match="unknown reset options"):
            vec.reset(options={"options": 1})
        with pytest.raises(ConfigError, match=r"environment 0: options.*horizon.*steps from 1"):
            vec.reset(options={"horizon": 0})
        vec.step(vec.sample_actions())  # nothing has happened
    with pytest.raises(ConfigError, match="horizon"):
        seer.make_vec("uav_swarm", 2, drones=2, autoreset_options={"horizon": -1})


@pytest.mark.parametrize("layout", ["dict", "stacked", "list", "flat"])
def test_illegal_actions_are_named_and_nothing_moves(layout):
    with seer.make_vec("uav_swarm", 3, drones=4, layout=layout) as vec:
        vec.reset(seed=0)
        before = vec.state()
        actions = vec.sample_actions()
        put(layout, actions, 1, 2, [0.0, np.nan, 0.0])
        with pytest.raises(ActionError, match="drone_2") as caught:
            vec.step(actions)
        assert (caught.value.world, caught.value.agent) == (1, "drone_2")
        assert (vec.state() == before).all()
        put(layout, actions, 1, 2, [7.0, 0.0, -7.0])
        vec.step(actions)
        assert vec._backend.clipped_actions == 1
    with seer.make_vec("uav_swarm", 3, drones=4, layout=layout, strict_actions=True) as vec:
        vec.reset(seed=0)
        with pytest.raises(ActionError, match="world 1"):
            vec.step(actions)
    with seer.make_vec("uav_swarm", 3, drones=4, layout=layout, discrete=True) as vec:
        vec.reset(seed=0)
        actions = vec.sample_actions()
        put(layout, actions, 2, 3, 7)
        with pytest.raises(
            ActionError, match=r"environment 2, agent 'drone_3'.*from 0 to 6, got 7"
        ):
            vec.step(actions)


def put(layout, actions, env, at, value):
    """Change one agent's action."""
    if layout == "list":
        actions[env][f"drone_{at}"] = np.asarray(value, np.float32) if (
            isinstance(value, list)) else value  # fmt: skip
    elif layout == "flat":
        actions[env * 4 + at] = value
    elif layout == "dict":
        actions[f"drone_{at}"][env] = value
    else:
        actions["drone"][env, at] = value


@pytest.mark.parametrize("layout", ["dict", "list", "flat"])
def test_layouts_say_the_same(layout):
    with (
        seer.make_vec(Crowd, 4, layout="stacked", **CROWD) as one,
        seer.make_vec(Crowd, 4, layout=layout, pool=POOLS[1], **CROWD) as other,
    ):
        one.reset(seed=2)
        other.reset(seed=2)
        rng = np.random.default_rng(1)
        for _ in range(40):
            actions = rng.uniform(-1, 1, (4, 5, 2)).astype("f4")
            obs, rewards, terms, truncs, _ = one.step({"agent": actions})
            live = other.live
            if layout == "dict":
                given = {agent: actions[:, k] for k, agent in enumerate(other.possible_agents)}
            elif layout == "list":
                given = [
                    {a: actions[n, k] for k, a in enumerate(other.possible_agents) if live[n, k]}
                    for n in range(4)
                ]
            else:
                given = actions.reshape(20, 2)
            got = other.step(given)
            for value, want in zip(got, (obs, rewards, terms, truncs), strict=False):
                same(layout, value, want["agent"], one)
            assert (one.live == other.live).all() and (one.acted == other.acted).all()


def same(layout, value, want, vec):
    if layout == "dict":
        value = np.stack([value[agent] for agent in vec.possible_agents], axis=1)
    elif layout == "flat":
        value = value.reshape(want.shape)
    else:
        for n, by_agent in enumerate(value):
            for agent, one in by_agent.items():
                np.testing.assert_array_equal(one, want[n, vec.possible_agents.index(agent)])
        return
    np.testing.assert_array_equal(value, want)


def test_teams_are_groups():
    options = {"drones": 6, "team_size": 2, "task": "rendezvous"}
    with (
        seer.make_vec("uav_swarm", 3, layout="stacked", **options) as vec,
        seer.make_vec("uav_swarm", 3, layout="stacked", groups="spaces", **options) as one,
    ):
        assert vec.groups == {
            f"team_{k}": (f"drone_{2 * k}", f"drone_{2 * k + 1}") for k in range(3)
        }
        assert list(one.groups) == ["group"]
        compare_groups(vec, one)
    with (
        seer.make_vec(Crowd, 3, layout="stacked", teams_of=2, **CROWD) as vec,
        seer.make_vec(Crowd, 3, layout="stacked", groups="all", **CROWD) as one,
        seer.make_vec(
            Crowd, 3, layout="stacked", groups=lambda name: "odd" if name[-1] in "135" else "even",
            **CROWD,
        ) as called,
    ):  # fmt: skip
        assert vec.groups == {
            "team_0": ("agent_0", "agent_2", "agent_4"), "team_1": ("agent_1", "agent_3"),
        }  # fmt: skip
        assert list(called.groups.values()) == list(vec.groups.values())
        compare_groups(vec, one)


def compare_groups(vec, one):
    (name,) = one.groups
    first, _ = vec.reset(seed=4)
    other, _ = one.reset(seed=4)
    rng = np.random.default_rng(0)
    slots = {group: [vec.agents.index(a) for a in members] for group, members in vec.groups.items()}
    width = one.group_spaces[name][1].shape[0]
    for _ in range(50):
        for group, at in slots.items():
            np.testing.assert_array_equal(first[group], other[name][:, at])
        actions = rng.uniform(-1, 1, (3, len(vec.agents), width)).astype("f4")
        first, rewards, *_ = vec.step({group: actions[:, at] for group, at in slots.items()})
        other, wanted, *_ = one.step({name: actions})
        for group, at in slots.items():
            np.testing.assert_array_equal(rewards[group], wanted[name][:, at])
        assert (vec.live == one.live).all()


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_saved_vector_goes_on(mode):
    make = functools.partial(seer.make_vec, Crowd, 4, layout="stacked", autoreset=mode, **CROWD)
    with make() as vec, make(pool=POOLS[1]) as other:
        rng = np.random.default_rng(0)
        vec.reset(seed=1, options={"horizon": 6})
        for _ in range(7):
            vec.step({"agent": rng.uniform(-1, 1, (4, 5, 2)).astype("f4")})
        saved = vec.state_dict()
        obs, _ = other.load_state_dict(saved)
        assert (other.live == vec.live).all()
        live = vec.live
        (mine,) = vec._backend._ring.last.obs[0]
        np.testing.assert_array_equal(obs["agent"][live], mine[live])
        for _ in range(25):
            actions = {"agent": rng.uniform(-1, 1, (4, 5, 2)).astype("f4")}
            for a, b in zip(vec.step(actions)[:4], other.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(a["agent"], b["agent"])
            assert (vec.was_reset == other.was_reset).all()
        with pytest.raises(SnapshotError, match="expected a dict"):
            other.load_state_dict({})
        with pytest.raises(SnapshotError, match="steps of shape"):
            other.load_state_dict(
                {"vector": {**saved["vector"], "steps": saved["vector"]["steps"][:2]}}
            )
    with (
        seer.make_vec(Crowd, 2, backend="serial") as vec,
        pytest.raises(StateError, match="native"),
    ):
        vec.state_dict()


def test_results_are_the_callers():
    with seer.make_vec("uav_swarm", 3, drones=4, layout="stacked") as vec:
        vec.reset(seed=0)
        kept, copies = [], []
        for _ in range(12):
            obs, rewards, *_ = vec.step(vec.sample_actions())
            kept.append((obs["drone"], rewards["drone"]))
            copies.append((obs["drone"].copy(), rewards["drone"].copy()))
            obs["drone"][0, 0, 0] += 0.0  # writable
        for mine, its in zip(kept, copies, strict=True):
            np.testing.assert_array_equal(mine[0], its[0])
            np.testing.assert_array_equal(mine[1], its[1])
    with seer.make_vec("uav_swarm", 3, drones=4, layout="stacked", copy=False) as vec:
        vec.reset(seed=0)
        obs, rewards, *_ = vec.step(vec.sample_actions())
        with pytest.raises(ValueError, match="read-only"):
            obs["drone"][:] = 0.0
        with pytest.raises(ValueError, match="read-only"):
            rewards["drone"][:] = 0.0


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("model", ["coverage", "crowd"])
def test_nothing_differs_without_copies(model, mode):
    env, kwargs, _ = MODELS[model]
    make = functools.partial(seer.make_vec, env, 3, layout="stacked", autoreset=mode, **kwargs)
    with make() as vec, make(copy=False) as bare:
        rng = np.random.default_rng(2)
        (name,) = vec.groups
        vec.reset(seed=0)
        bare.reset(seed=0)
        lent = 0
        for t in range(60):
            actions = drawn(rng, vec)
            wanted, got = vec.step(actions), bare.step(actions)
            if t % 13 == 12:
                some = {"reset_mask": np.array([True, False, False])}
                wanted, got = vec.reset(options=some)[:1], bare.reset(options=some)[:1]
                wanted[0][name][~vec.live] = got[0][name][~vec.live]
            for a, b in zip(wanted[:4], got[:4], strict=True):
                for group in a:
                    np.testing.assert_array_equal(a[group], b[group])
                    assert not b[group].flags.writeable
            lent += np.shares_memory(bare._frame.obs[0][0], bare._backend.engine.observation)
        assert lent >= (1 if env is Crowd else 20)


def test_pictures_of_worlds():
    with seer.make_vec("uav_swarm", 3, drones=4, render_mode="rgb_array", horizon=5) as vec:
        single = seer.make("uav_swarm", drones=4, render_mode="rgb_array", horizon=5)
        vec.reset(seed=0)
        single.reset(seed=2)
        for _ in range(12):
            frames = vec.render()
            assert len(frames) == 3
            np.testing.assert_array_equal(frames[2], single.render())
            np.testing.assert_array_equal(vec.render(2), frames[2])
            actions = vec.sample_actions()
            vec.step(actions)
            if single.agents:
                single.step({a: actions[a][2] for a in single.agents})
            else:
                single.reset()
        assert (frames[0] != frames[1]).any()
    with pytest.raises(ConfigError, match="one world, not 2"):
        seer.make_vec("uav_swarm", 2, drones=2, render_mode="human")
    with pytest.raises(ConfigError, match="render_mode"):
        seer.make_vec("uav_swarm", 2, drones=2, render_mode="ansi")


def test_worlds_can_be_asked():
    with seer.make_vec("uav_swarm", 3, drones=2, horizon=7, layout="stacked") as vec:
        vec.reset(seed=5)
        assert vec.get_attr("np_random_seed") == (5, 6, 7)
        assert vec.call("observation_space", "drone_1")[0].shape == (59,)
        assert vec.get_attr("agents", envs=[1]) == (["drone_0", "drone_1"],)
        np.testing.assert_array_equal(np.stack(vec.call("state")), vec.state())
        engine = vec.get_attr("engine")[2]
        np.testing.assert_array_equal(
            engine.columns["pos"][0], vec._backend.engine.columns["pos"][2]
        )
        assert engine.totals["coverage"][0] == vec._backend.engine.totals["coverage"][2]
        assert (engine.steps(0), engine.time(0)) == (0, 0.0)
        engine.columns["pos"][0, 0, 2] = 33.0
        assert vec._backend.engine.columns["pos"][2, 0, 2] == 33.0
        vec.set_attr("horizon", [2, None, 3])
        assert vec.get_attr("horizon") == (2, None, 3)
        with pytest.raises(ConfigError, match="horizon"):
            vec.set_attr("horizon", 0)
        with pytest.raises(AttributeError, match="no 'step'"):
            vec.call(lambda world: world.engine.step)
        with pytest.raises(AttributeError):
            vec.get_attr("nothing")


def test_pool_says_what_runs_and_why(monkeypatch):
    with seer.make_vec("uav_swarm", 2, drones=2) as vec:
        assert vec.pool.config.threads == 1
        assert "2 worlds of 4 entities" in vec.pool.explain() or "CPU" in vec.pool.explain()

    def chosen(worlds, entities):
        return choose_pool(None, worlds, entities).config

    monkeypatch.setattr("seer.build.usable_cpus", lambda: 4)
    assert chosen(2, 20).threads == 1
    assert (chosen(2, 100).threads, chosen(2, 100).axis) == (2, "worlds")
    assert (chosen(9, 9).threads, chosen(9, 9).axis) == (4, "worlds")
    assert (chosen(2, 5000).threads, chosen(2, 5000).axis) == (4, "lanes")
    assert (chosen(9, 5000).threads, chosen(9, 5000).axis) == (4, "worlds")
    assert chosen(1, 100).axis == "lanes"
    monkeypatch.setattr("seer.build.usable_cpus", lambda: 1)
    assert chosen(100, 100).threads == 1
    with seer.make_vec("uav_swarm", 2, drones=2, pool=POOLS[1]) as vec:
        assert vec.pool.config is POOLS[1] and "asked" in vec.pool.explain()
    with seer.make_vec("uav_swarm", 2, drones=2, env_kwargs={"pool": POOLS[2]}) as vec:
        assert vec.pool.config is POOLS[2]


def test_closed_is_closed():
    vec = seer.make_vec(Crowd, 2)
    obs, _ = vec.reset(seed=0)
    vec.close()
    vec.close()
    assert np.isfinite(obs["agent_0"]).all()
    with pytest.raises(ClosedError):
        vec.reset()


def test_many_agents_make_no_spaces():
    with seer.make_vec("uav_swarm", 2, layout="stacked", drones=20_000) as vec:
        before = len(vec.observation_spaces.made)
        obs, _ = vec.reset(seed=0)
        vec.step({"drone": np.zeros((2, 20_000, 3), "f4")})
        assert obs["drone"].shape == (2, 20_000, 59)
        assert before == len(vec.observation_spaces.made) == 0
        assert vec.observation_spaces["drone_7"] is vec.observation_space("drone_7")


def test_plain_python_worlds_are_the_same():
    with (
        seer.make_vec(Crowd, 2, layout="stacked", compiled=False, **CROWD) as plain,
        seer.make_vec(Crowd, 2, layout="stacked", **CROWD) as vec,
    ):
        plain.reset(seed=3)
        vec.reset(seed=3)
        for _ in range(15):
            actions = {"agent": np.full((2, 5, 2), 0.5, "f4")}
            for a, b in zip(plain.step(actions)[:4], vec.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(a["agent"], b["agent"])


def test_no_loop_over_worlds_on_the_way_of_a_step():
    """The number of Python calls of a quiet step does not depend on the number of worlds."""

    def calls(count):
        seen = 0

        def count_calls(frame, event, argument):
            nonlocal seen
            seen += event in ("call", "c_call")

        with seer.make_vec("uav_swarm", count, drones=3, layout="stacked", pool=POOLS[0]) as vec:
            vec.reset(seed=0)
            actions = {"drone": np.zeros((count, 3, 3), "f4")}
            vec.step(actions)
            vec.step(actions)
            sys.setprofile(count_calls)
            try:
                vec.step(actions)
            finally:
                sys.setprofile(None)
            assert vec.live.all()
        return seen

    assert calls(2) == calls(40)


def test_what_is_native():
    from seer.envs import uav_swarm_v0

    for env in ("uav_swarm", uav_swarm_v0, "vector.native_models:Crowd", Crowd, Crowd(count=3)):
        with seer.make_vec(env, 2, backend="native") as vec:
            obs, _ = vec.reset(seed=0)
            assert len(vec.agents) == len(obs) > 2
    with pytest.raises(ConfigError, match="is made already"):
        seer.make_vec(Crowd(count=3), 2, count=4)
    with pytest.raises(ConfigError, match="drone"):
        seer.make_vec("uav_swarm", 2, drone=4)


@pytest.mark.parametrize("copy", [True, False])
def test_a_fault_of_the_model_asks_for_a_reset_of_all(copy):
    with seer.make_vec(Fragile, 3, layout="stacked", copy=copy) as vec:
        vec.reset(seed=0)
        good = {"agent": np.zeros((3, 2, 1), "f4")}
        bad = {"agent": np.zeros((3, 2, 1), "f4")}
        bad["agent"][1, 0] = 1.0
        vec.step(good)
        with pytest.raises(FaultError) as caught:
            vec.step(bad)
        assert caught.value.world == 1
        with pytest.raises(StateError, match="failed"):
            vec.step(good)
        with pytest.raises(StateError, match="all environments"):
            vec.reset(options={"reset_mask": np.array([True, False, False])})
        obs, _ = vec.reset()
        assert not obs["agent"].any()
        obs, rewards, *_ = vec.step(good)
        assert (obs["agent"] == 1.0).all()
        assert not rewards["agent"].any()  # the model has no rewards


def test_worlds_may_be_reset_a_few_at_a_time():
    with seer.make_vec(Crowd, 3, layout="stacked", **CROWD) as vec:
        some = np.array([True, False, True])
        obs, _ = vec.reset(seed=4, options={"reset_mask": some})
        assert vec.live.any(axis=1).tolist() == some.tolist()
        assert (obs["agent"][1] == 1.0).all()
        with pytest.raises(StateError, match="environments \\[1\\] have not been reset"):
            vec.step(vec.sample_actions())
        rest, _ = vec.reset(seed=4, options={"reset_mask": ~some})
        whole, _ = vec.reset(seed=4)
        np.testing.assert_array_equal(rest["agent"], whole["agent"])


def test_a_window_for_one_world():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    vec = seer.make_vec("uav_swarm", 1, drones=2, render_mode="human", layout="stacked")
    with pytest.warns(UserWarning, match="no window can be opened"):
        vec.reset(seed=0)
    vec.step(vec.sample_actions())
    assert vec.render() == (None,)
    vec.close()


@pytest.mark.parametrize("model", ["crowd", "unborn", "discrete"])
def test_samples_are_legal_and_can_be_repeated(model):
    env, kwargs, _ = MODELS[model]
    taken = {}
    for layout in ("stacked", "dict", "list"):
        for again in range(2):
            with seer.make_vec(env, 3, layout=layout, **kwargs) as vec:
                with pytest.raises(StateError, match="before the first reset"):
                    vec.sample_actions()
                vec.seed_spaces(7)
                vec.reset(seed=2)
                space = vec.action_space(vec.agents[0])
                seen = []
                for _ in range(12):
                    actions = vec.sample_actions()
                    seen.append(rows_of(vec, layout, actions))
                    for row, live in zip(seen[-1], vec.live, strict=True):
                        assert set(row) >= {a for a, on in zip(vec.agents, live, strict=True) if on}
                        assert all(space.contains(one) for one in row.values())
                    vec.step(actions)
            if again:
                for mine, its in zip(seen, taken[layout], strict=True):
                    for a, b in zip(mine, its, strict=True):
                        assert a.keys() == b.keys()
                        assert all((a[name] == b[name]).all() for name in a)
            taken[layout] = seen
    first = [one for rows in taken["list"] for row in rows for one in row.values()]
    assert len({np.asarray(one).tobytes() for one in first}) > 3


def rows_of(vec, layout, actions):
    """Sampled actions as a dict for each world."""
    if layout == "list":
        return actions
    if layout == "stacked":
        (values,) = actions.values()
        actions = {agent: values[:, k] for k, agent in enumerate(vec.agents)}
    live = vec.live
    return [
        {a: actions[a][n] for k, a in enumerate(vec.agents) if live[n, k]}
        for n in range(vec.num_envs)
    ]
