"""Wrappers that know who is there; each beside the plain vector, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from seer.errors import ConfigError, SnapshotError
from seer.vector.contract import OBSERVED, REWARDED
from seer.vector.make import make_vec
from seer.vector.moments import Moments
from seer.vector.statistics import RecordEpisodeStatistics
from seer.vector.wrappers import (
    AgentOneHot,
    FrameStack,
    NormalizeObservation,
    NormalizeReward,
    VectorWrapper,
)

from .test_statistics import ones
from .worlds import Ledger, Masked

NAMES = ("ally_0", "ally_1", "foe_0")
KINDS: list[dict[str, Any]] = [
    {"horizon": 3},
    {"horizon": 5, "dies": {"ally_1": 2}},
    {"horizon": 4, "dies": {"ally_0": 1, "foe_0": 3}, "born": {"ally_1": 2}},
]
LAYOUTS = ("dict", "stacked")
MODES = ("next_step", "same_step")


class Ended(Masked):
    """Masks in the observation; any action is legal, so that actions may be dull."""

    def step(self, actions: Any) -> Any:
        return Ledger.step(self, actions)


def worlds(kind: Any = Ledger) -> list[Any]:
    return [partial(kind, tag=k, names=NAMES, **more) for k, more in enumerate(KINDS)]


def a_vec(layout: str = "dict", mode: str = "next_step", kind: Any = Ledger, **more: Any) -> Any:
    return make_vec(
        worlds(kind), layout=layout, autoreset=mode, backend="serial", probe=False, **more
    )


def by_agent(vec: Any, values: Any) -> dict[str, Any]:
    """Agent -> (rows, …) of any layout's form."""
    if vec.layout == "dict":
        return dict(values)
    out = {}
    for name, members in vec.groups.items():
        for k, agent in enumerate(members):
            one = values[name]
            out[agent] = (
                {key: part[:, k] for key, part in one.items()} if isinstance(one, dict)
                else one[:, k]
            )  # fmt: skip
    return out


Step = tuple[dict[str, Any], dict[str, Any], Any, dict[str, Any], dict[str, Any], Any]


def together(
    raw: Any, vec: Any, steps: int = 14, by_hand: tuple[int, ...] = ()
) -> Iterator[tuple[Any, Any, Any, Any, Any, Any]]:
    """(obs, rewards, infos) of a plain vector and of a wrapped one, each by agent."""
    obs, infos = raw.reset(seed=0)
    seen, told = vec.reset(seed=0)
    yield by_agent(raw, obs), None, infos, by_agent(vec, seen), None, told
    for step in range(steps):
        if step in by_hand:
            options = {"reset_mask": np.array([False, True, False])}
            obs, infos = raw.reset(options=options)
            seen, told = vec.reset(options=options)
            yield by_agent(raw, obs), None, infos, by_agent(vec, seen), None, told
            continue
        obs, rewards, *_, infos = raw.step(ones(raw))
        seen, earned, *_, told = vec.step(ones(vec))
        yield (by_agent(raw, obs), by_agent(raw, rewards), infos, by_agent(vec, seen),
               by_agent(vec, earned), told)  # fmt: skip


def here(raw: Any) -> Any:
    """(N, A) whose observation is real."""
    return (raw._frame.seen & OBSERVED) != 0


# ---- what holds for all -------------------------------------------------------------


WRAPPERS: list[Any] = [
    NormalizeObservation, NormalizeReward, partial(FrameStack, size=3), AgentOneHot,
    partial(AgentOneHot, scope="all"), RecordEpisodeStatistics,
    lambda vec: AgentOneHot(FrameStack(NormalizeObservation(NormalizeReward(vec)), 2))
    if type(vec.observation_space("foe_0")) is Dict
    else FrameStack(AgentOneHot(NormalizeReward(NormalizeObservation(vec))), 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", [Ledger, Ended])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_observations_are_in_their_spaces(wrap: Any, layout: str, mode: str, kind: Any) -> None:
    inner = a_vec(layout, mode, kind)
    vec = wrap(inner)
    assert vec.unwrapped is inner
    kept: list[Any] = []
    obs, _ = vec.reset(seed=1)
    for _ in range(12):
        own = by_agent(vec, obs)
        assert list(own) == list(NAMES)
        kept.append((own, {a: repr(v) for a, v in own.items()}))
        for agent in NAMES:
            space = vec.batched_observation_spaces[agent]
            assert space is vec.batched_observation_spaces[agent]
            assert space.contains(own[agent]), (agent, space, own[agent])
        for name, (space, _) in vec.group_spaces.items():
            assert space == vec.observation_space(vec.groups[name][0])
        for agent, (space, act) in vec.env_spaces[1].items():
            assert space == vec.observation_space(agent) and act == vec.action_space(agent)
        obs, _, _, _, infos = vec.step(vec.sample_actions())
        for agent, values in infos.get("final_obs", {}).items():
            for value in values if not agent.startswith("_") else ():
                assert value is None or vec.observation_space(agent).contains(value)
    for own, then in kept:
        assert {a: repr(v) for a, v in own.items()} == then, "what was given has changed"
    vec.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_dict_and_stacked_give_the_same(wrap: Any, mode: str) -> None:
    one, two = wrap(a_vec("dict", mode)), wrap(a_vec("stacked", mode))
    for obs, rewards, infos, seen, earned, told in together(one, two):
        for agent in NAMES:
            np.testing.assert_array_equal(obs[agent], seen[agent])
            if rewards is not None:
                np.testing.assert_array_equal(rewards[agent], earned[agent])
            if "final_obs" in infos:
                for a, b in zip(infos["final_obs"][agent], told["final_obs"][agent], strict=True):
                    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wrap", [WRAPPERS[0], WRAPPERS[2], WRAPPERS[3], WRAPPERS[6]])
def test_action_masks_are_left_alone(wrap: Any) -> None:
    for mode in MODES:
        raw, vec = a_vec("dict", mode, Ended), wrap(a_vec("stacked", mode, Ended))
        for obs, _, infos, seen, _, told in together(raw, vec):
            for agent in NAMES:
                mask = seen[agent]["action_mask"]
                assert mask.dtype == np.int8
                np.testing.assert_array_equal(mask, obs[agent]["action_mask"])
                for a, b in zip(infos.get("final_obs", {}).get(agent, ()),
                                told.get("final_obs", {}).get(agent, ()), strict=True):  # fmt: skip
                    if a is not None:
                        np.testing.assert_array_equal(a["action_mask"], b["action_mask"])


def test_asynchronous_results_are_those_of_each_environment() -> None:
    def wrap(vec: Any) -> Any:
        return FrameStack(AgentOneHot(vec), 3)

    vec, want = wrap(a_vec(batch_size=2)), wrap(a_vec())
    trace: list[list[Any]] = [[] for _ in KINDS]
    obs, _ = want.reset(seed=0)
    for _ in range(12):
        for env, its in enumerate(trace):
            its.append({agent: obs[agent][env] for agent in NAMES})
        obs, *_ = want.step(ones(want))
    vec.async_reset(seed=0)
    at = [0] * len(KINDS)
    while min(at) < 6:
        obs, *_ = vec.recv()
        for row, env in enumerate(vec.env_ids.tolist()):
            for agent in NAMES:
                np.testing.assert_array_equal(obs[agent][row], trace[env][at[env]][agent])
            at[env] += 1
        vec.send(ones(vec), vec.env_ids)
    vec.close()


# ---- NormalizeObservation -----------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_normalized_by_the_moments_of_who_was_there(layout: str, mode: str) -> None:
    raw, vec = a_vec(layout, mode), NormalizeObservation(a_vec(layout, mode))
    samples: dict[str, list[Any]] = {"ally": [], "foe": []}
    for obs, _, infos, seen, _, told in together(raw, vec):
        there = here(raw)
        for agent, values in infos.get("final_obs", {}).items():
            if not agent.startswith("_"):
                samples[agent[:-2]] += [x for x in values if x is not None]
        for slot, agent in enumerate(NAMES):
            samples[agent[:-2]] += list(obs[agent][there[:, slot]])
        for slot, agent in enumerate(NAMES):
            group = np.array(samples[agent[:-2]], np.float64)
            mean, scale = group.mean(0), np.sqrt(group.var(0) + 1e-8)
            mask = there[:, slot]
            assert seen[agent].dtype == np.float32
            np.testing.assert_allclose(
                seen[agent][mask], (obs[agent][mask] - mean) / scale, rtol=1e-5, atol=1e-5
            )
            assert not seen[agent][~mask].any(), "filler is filler"
            for a, b in zip(infos.get("final_obs", {}).get(agent, ()),
                            told.get("final_obs", {}).get(agent, ()), strict=True):  # fmt: skip
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(b, (a - mean) / scale, rtol=1e-5, atol=1e-5)
    for name, group in samples.items():
        (moments,) = vec.moments[name]
        assert moments is not None and moments.count == len(group)


def test_rows_that_a_reset_leaves_alone_are_not_counted_twice() -> None:
    vec = NormalizeObservation(a_vec())
    vec.reset()
    before = vec.moments["foe"][0].count
    vec.reset(options={"reset_mask": np.array([True, False, False])})
    assert vec.moments["foe"][0].count == before + 1


def test_frozen_saved_and_loaded() -> None:
    vec = NormalizeObservation(a_vec())
    vec.reset()
    for _ in range(5):
        vec.step(ones(vec))
    state = vec.state_dict()
    vec.training = False
    vec.step(ones(vec))
    other = NormalizeObservation(a_vec("stacked"), clip=0.5)
    other.load_state_dict(state)
    other.training = False
    obs, _ = other.reset()
    assert other.state_dict().keys() == vec.state_dict().keys()
    for name in ("ally", "foe"):
        for a, b in ((vec, other), (other, vec)):
            assert a.moments[name][0].count == b.moments[name][0].count
        np.testing.assert_array_equal(state[name][0]["mean"], other.moments[name][0].mean)
        assert np.abs(obs[name]).max() <= 0.5
    assert other.observation_space("foe_0").high.max() == 0.5
    state["foe"][0]["mean"][:] = 7
    assert not (other.moments["foe"][0].mean == 7).all(), "the state is a copy"


def test_states_that_do_not_fit() -> None:
    vec = NormalizeObservation(a_vec())
    good = vec.state_dict()
    vec.reset()
    kept = repr(vec.state_dict())
    wrong: list[tuple[Any, str]] = [
        ({"ally": good["ally"]}, "expected the groups"),
        ({**good, "foe": []}, "'foe' has other leaves"),
        ({**good, "foe": [{"count": 1}]}, "expected count, mean and spread"),
        ({**good, "foe": [Moments((9,)).state_dict()]}, r"expected shape \(4,\), got \(9,\)"),
        (7, "expected the groups"),
    ]
    for state, why in wrong:
        with pytest.raises(SnapshotError, match=why):
            vec.load_state_dict(state)
        assert repr(vec.state_dict()) == kept, "all or nothing"


def test_leaves_that_are_left_alone_and_integers_that_become_floats() -> None:
    class Rich(Ledger):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.boxes = {
                a: Dict(picture=Box(0, 255, (2, 2, 3), np.uint8), kind=Discrete(3),
                        raw=Box(-9, 9, (1,), np.float32), exact=Box(-9, 9, (), np.float64),
                        bits=MultiBinary(2))
                for a in self.possible_agents
            }  # fmt: skip

        def look(self, agent: str) -> Any:
            return {"picture": np.full((2, 2, 3), 10 * self.t, np.uint8), "kind": self.t % 3,
                    "raw": np.float32([self.t]), "exact": np.float64(self.t),
                    "bits": np.int8([1, 0])}  # fmt: skip

    vec = NormalizeObservation(
        make_vec([partial(Rich, horizon=9)] * 2, layout="dict", backend="serial", probe=False),
        leave=["raw"],
    )
    vec.reset()
    for _ in range(4):
        obs, *_ = vec.step(ones(vec))
    own = obs["b"]
    assert own["raw"][0, 0] == 4 and own["kind"][0] == 1 and own["bits"].tolist() == [[1, 0]] * 2
    assert own["picture"].dtype == np.float32 and own["exact"].dtype == np.float64
    np.testing.assert_allclose(own["exact"], (4 - 2) / np.sqrt(2))
    assert vec.batched_observation_spaces["b"].contains(own)


# ---- NormalizeReward -----------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_rewards_by_the_spread_of_the_discounted_return(mode: str) -> None:
    raw = a_vec("dict", mode)
    vec = NormalizeReward(a_vec("dict", mode), gamma=0.9)
    returns = np.zeros((3, 3))
    samples: dict[str, list[float]] = {"ally": [], "foe": []}
    for _, rewards, _, _, earned, _ in together(raw, vec, by_hand=(5,)):
        if rewards is None:
            returns[1 if samples["foe"] else slice(None)] = 0
            continue
        acted = raw.acted
        for slot, agent in enumerate(NAMES):
            returns[:, slot] = np.where(
                acted[:, slot], 0.9 * returns[:, slot] + rewards[agent], returns[:, slot]
            )
            samples[agent[:-2]] += returns[acted[:, slot], slot].tolist()
        ended = raw._frame.terminated | raw._frame.truncated
        returns[ended] = 0
        for agent in NAMES:
            spread = np.sqrt(np.var(samples[agent[:-2]]) + 1e-8)
            np.testing.assert_allclose(earned[agent], rewards[agent] / spread, rtol=1e-9)
    for name, values in samples.items():
        assert vec.moments[name].count == len(values)
    state = vec.state_dict()
    other = NormalizeReward(a_vec(), clip=0.1)
    other.load_state_dict(state)
    other.training = False
    other.reset()
    _, earned, *_ = other.step(ones(other))
    assert other.moments["foe"].count == vec.moments["foe"].count
    assert max(np.abs(r).max() for r in earned.values()) == pytest.approx(0.1)
    with pytest.raises(SnapshotError, match="expected the groups"):
        other.load_state_dict({"ally": state["ally"]})


# ---- FrameStack -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks_begin_with_each_life(layout: str, mode: str) -> None:
    raw, vec = a_vec(layout, mode), FrameStack(a_vec(layout, mode), 3)
    stacks: dict[Any, Any] = {}
    hand = False
    for obs, rewards, infos, seen, _, told in together(raw, vec, by_hand=(1, 6)):
        there = here(raw)
        for env in range(3):
            if (rewards is None and (env == 1 or not hand)) or raw.was_reset[env]:
                stacks = {key: its for key, its in stacks.items() if key[0] != env}
            for agent in NAMES:
                last = infos.get("final_obs", {}).get(agent, [None] * 3)[env]
                got = told.get("final_obs", {}).get(agent, [None] * 3)[env]
                assert (last is None) == (got is None)
                if last is not None:
                    want = stacks.get((env, agent), deque([last] * 3, 3))
                    np.testing.assert_array_equal(got, [*list(want)[1:], last])
            if mode == "same_step" and raw.episode_over[env]:
                stacks = {key: its for key, its in stacks.items() if key[0] != env}
            for slot, agent in enumerate(NAMES):
                now = obs[agent][env]
                if not there[env, slot]:
                    np.testing.assert_array_equal(seen[agent][env], [now] * 3)
                    continue
                stack = stacks.setdefault((env, agent), deque([now] * 3, 3))
                if not (rewards is None and hand and env != 1):
                    stack.append(now)
                np.testing.assert_array_equal(seen[agent][env], list(stack))
        hand = True


def test_who_pauses_goes_on_and_who_comes_back_begins_anew() -> None:
    class Comes(Ledger):
        """x_1 says nothing in step 2; x_2 dies in step 1 and is back in step 3."""

        def step(self, actions: Any) -> Any:
            out = super().step(actions)
            if self.t == 2:
                for values in out:
                    values.pop("x_1", None)
                self.agents.remove("x_1")
            if self.t == 3:
                self.agents += ["x_1", "x_2"]
                for agent in ("x_1", "x_2"):
                    news = (self.look(agent), 0.0, False, False, {})
                    for values, value in zip(out, news, strict=True):
                        values[agent] = value
            return out

    vec = FrameStack(
        make_vec([partial(Comes, names=("x_0", "x_1", "x_2"), dies={"x_2": 1}, horizon=9)],
                 layout="stacked", backend="serial", probe=False), 3,
    )  # fmt: skip
    obs, _ = vec.reset()
    times = [obs["x"][0, :, :, 3].tolist()]
    for _ in range(4):
        obs, *_ = vec.step(ones(vec))
        times.append(obs["x"][0, :, :, 3].tolist())
    assert [t[0] for t in times] == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [t[1] for t in times] == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 3], [1, 3, 4]]
    assert [t[2] for t in times] == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [3, 3, 3], [3, 3, 4]]


# ---- AgentOneHot ----------------------------------------------------------------------


def test_one_hot_in_the_group_and_among_all() -> None:
    for scope, codes in (("group", {"ally_0": [1, 0], "ally_1": [0, 1], "foe_0": [1]}),
                         ("all", {"ally_0": [1, 0, 0], "ally_1": [0, 1, 0],
                                  "foe_0": [0, 0, 1]})):  # fmt: skip
        for mode in MODES:
            raw, vec = a_vec("dict", mode), AgentOneHot(a_vec("stacked", mode), scope)
            for obs, _, infos, seen, _, told in together(raw, vec):
                for slot, agent in enumerate(NAMES):
                    code = here(raw)[:, slot, None] * np.float32(codes[agent])
                    want = np.concatenate([obs[agent], code], 1)
                    np.testing.assert_array_equal(seen[agent], want)
                    own = infos.get("final_obs", {}).get(agent, ())
                    for a, b in zip(own, told.get("final_obs", {}).get(agent, ()), strict=True):
                        if a is not None:
                            np.testing.assert_array_equal(b, [*a, *codes[agent]])
    assert vec.observation_space("foe_0").low[-3:].tolist() == [0, 0, 0]


def test_one_hot_of_pictures_and_dicts() -> None:
    class Seeing(Ledger):
        space: Any = Box(0, 255, (4, 5, 3), np.uint8)

        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.boxes = dict.fromkeys(self.possible_agents, self.space)

        def look(self, agent: str) -> Any:
            if type(self.space) is Dict:
                return {key: np.zeros(s.shape, s.dtype) for key, s in self.space.items()}
            return np.full(self.space.shape, 7, self.space.dtype)

    def made(space: Any, **more: Any) -> Any:
        kind = type("Seeing", (Seeing,), {"space": space})
        names = ("x_0", "x_1")
        world = partial(kind, names=names, dies={"x_1": 1})
        return make_vec([world], layout="dict", backend="serial", probe=False, **more)

    vec = AgentOneHot(made(Seeing.space))
    obs, _ = vec.reset()
    assert obs["x_1"].shape == (1, 4, 5, 5) and obs["x_1"].dtype == np.uint8
    assert (obs["x_1"][..., 3] == 0).all() and (obs["x_1"][..., 4] == 1).all()
    assert (obs["x_1"][..., :3] == 7).all()
    assert vec.batched_observation_spaces["x_1"].contains(obs["x_1"])
    vec.step(ones(vec))
    obs, *_ = vec.step(ones(vec))
    assert not obs["x_1"].any(), "the dead are nobody"

    vec = AgentOneHot(made(Dict(board=Box(0, 1, (3, 3), np.int8), zeal=Box(0, 1, (2,)))))
    obs, _ = vec.reset()
    assert obs["x_1"]["agent"].tolist() == [[0, 1]] and obs["x_1"]["board"].shape == (1, 3, 3)
    assert vec.batched_observation_spaces["x_1"].contains(obs["x_1"])

    for space in (Box(0, 1, (3, 3)), Discrete(4)):
        with pytest.raises(ConfigError, match=r"expected a Box of shape .*of 'x_0', got"):
            AgentOneHot(made(space))
    with pytest.raises(ConfigError, match="has an entry 'agent' already"):
        AgentOneHot(made(Dict(agent=Discrete(2))))


# ---- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda v: NormalizeObservation(v, epsilon=0), r"epsilon=….*> 0, got 0"),
        (lambda v: NormalizeObservation(v, clip=-1), r"clip=….*got -1"),
        (lambda v: NormalizeReward(v, gamma=1.5), r"gamma=….*from 0 to 1, got 1.5"),
        (lambda v: NormalizeReward(v, epsilon=-1), r"epsilon=….*got -1"),
        (lambda v: NormalizeReward(v, clip=0), r"clip=….*got 0"),
        (lambda v: FrameStack(v, 0), r"size=….*from 1, got 0"),
        (lambda v: FrameStack(v, 2.5), r"size=….*got 2.5"),
        (lambda v: AgentOneHot(v, "me"), r"scope=….*'group' or 'all', got 'me'"),
    ],
)
def test_wrong_settings(make: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(a_vec())


def test_wrong_vectors() -> None:
    with pytest.raises(ConfigError, match=r"FrameStack needs a layout of .*got 'list'"):
        FrameStack(a_vec("list"), 2)
    with pytest.raises(ConfigError, match=r"needs a layout of .*'flat'; Gymnasium's vector wrap"):
        NormalizeReward(make_vec("CartPole-v1", 2, backend="serial", probe=False))
    with pytest.raises(ConfigError, match=r"make_vec made, got .*CartPoleVectorEnv"):
        VectorWrapper(gymnasium.make_vec("CartPole-v1", 1))
    with pytest.raises(ConfigError, match=r"got .*CartPoleEnv; it goes around what"):
        VectorWrapper(gymnasium.make("CartPole-v1").unwrapped)


def test_wrappers_of_single_environments_say_that_this_is_none() -> None:
    for layout in ("dict", "flat"):
        with pytest.raises(
            (AssertionError, TypeError),
            match=r"Expected env to be a `gymnasium.Env` but got .*Vect",
        ):
            gymnasium.wrappers.NormalizeObservation(a_vec(layout))
    with pytest.raises(TypeError, match=r"Expected env to be a `gymnasium.vector.VectorEnv`"):
        gymnasium.wrappers.vector.NormalizeObservation(a_vec("dict"))


# ---- moments ----------------------------------------------------------------------------


def test_moments_in_batches_are_the_moments_of_all() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(1e6, 2.0, (n, 3)) for n in (1, 0, 7, 100, 1, 33)]
    moments = Moments((3,))
    assert (moments.variance == 1).all()
    for batch in batches:
        moments.add(batch)
    every = np.concatenate(batches)
    assert moments.count == len(every)
    np.testing.assert_allclose(moments.mean, every.mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.variance, every.var(0), rtol=1e-9)


# ---- taking turns -------------------------------------------------------------------------


def test_taking_turns_a_stack_has_what_its_agent_saw() -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    def game(k: int) -> Any:
        return parallel_to_aec(Ledger(tag=k, names=NAMES, **KINDS[k]))

    raw, vec = (
        make_vec([partial(game, 0), partial(game, 1)], layout="dict", backend="serial", probe=False)
        for _ in range(2)
    )
    vec = NormalizeReward(FrameStack(vec, 2), gamma=0.5)
    obs, _ = raw.reset(seed=0)
    seen, _ = vec.reset(seed=0)
    last: dict[Any, Any] = {}
    returns: dict[Any, float] = {}
    samples: dict[str, list[float]] = {"ally": [], "foe": []}
    heard = 0
    for step in range(40):
        there = here(raw)
        for env in range(2):
            if raw.was_reset[env]:
                for agent in NAMES:
                    last.pop((env, agent), None)
            for slot, agent in enumerate(NAMES):
                if there[env, slot]:
                    now = obs[agent][env]
                    np.testing.assert_array_equal(
                        seen[agent][env], [last.get((env, agent), now), now]
                    )
                    last[env, agent] = now
                    heard += step > 0
        obs, rewards, terms, truncs, _ = raw.step(ones(raw))
        seen, earned, *_ = vec.step(ones(vec))
        for slot, agent in enumerate(NAMES):
            for env in range(2):
                if raw.was_reset[env]:
                    returns = {key: value for key, value in returns.items() if key[0] != env}
                if raw._frame.seen[env, slot] & REWARDED:
                    key = env, agent
                    returns[key] = returns.get(key, 0.0) * 0.5 + rewards[agent][env]
                    samples[agent[:-2]].append(returns[key])
                    if terms[agent][env] or truncs[agent][env]:
                        del returns[key]
        for agent in NAMES:
            spread = np.sqrt(np.var(samples[agent[:-2]]) + 1e-8) if samples[agent[:-2]] else 1.0
            if len(samples[agent[:-2]]) > 1:
                np.testing.assert_allclose(earned[agent], rewards[agent] / spread, rtol=1e-9)
    assert heard > 40
