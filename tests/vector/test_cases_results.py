"""What went wrong for others with results: seeds, resets, last observations, infos, spaces.

Every test runs with the caller stepping all environments and with workers stepping them.
"""

import copy
import functools
import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete

from seer.errors import ConfigError, ResultError

from .case_worlds import (
    GRAPHS,
    NESTED,
    ArrayRewards,
    Common,
    Looking,
    Random,
    Silent,
    Told,
    graph,
    nested,
)
from .pilot import Pilot, copies
from .worlds import Ledger, Masked

pytestmark = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "processes"])


def column(observations, place, agent="a"):
    return [float(row[agent][place]) for row in observations]


# ---- seeds -------------------------------------------------------------------------------


def test_every_environment_is_its_own_factorys(workers):
    with Pilot(copies(Random, 4), workers=workers) as pilot:
        observations, _ = pilot.reset(7)
        assert column(observations, 0) == [0, 1, 2, 3]
        assert len(set(column(observations, 2))) == 4


def test_seed_plus_index_however_they_are_dealt(workers):
    with Pilot(copies(Told, 5), workers=workers) as pilot:
        assert column(pilot.reset(10)[0], 1) == [10, 11, 12, 13, 14]
        assert column(pilot.reset(0)[0], 1) == [0, 1, 2, 3, 4]
        assert column(pilot.reset([5, 9, 7, 9, 0])[0], 1) == [5, 9, 7, 9, 0]
        assert column(pilot.reset(None)[0], 1) == [-1] * 5


@pytest.mark.parametrize("seed", [[1, 2], "7", 1.5, -1, [1, -2, 3]])
def test_illegal_seed_is_an_error_and_no_reset(workers, seed):
    with Pilot(copies(Told, 3), workers=workers) as pilot:
        pilot.reset(3)
        with pytest.raises(ConfigError, match="seed"):
            pilot.reset(seed)
        assert column(pilot.step()[0], 1) == [3, 4, 5]


def test_equal_seeds_give_equal_states_and_zero_is_a_seed(workers):
    with Pilot(copies(Random, 3), workers=workers) as pilot:
        same = column(pilot.reset([7, 7, 7])[0], 2)
        assert len(set(same)) == 1
        first = column(pilot.reset(0)[0], 2)
        assert column(pilot.reset(0)[0], 2) == first
        again = column(pilot.reset(None)[0], 2)
        assert again != first


def test_copies_without_a_seed_differ(workers):
    factories = [functools.partial(Random)] * 4
    with Pilot(factories, workers=workers) as pilot:
        assert len(set(column(pilot.reset(None)[0], 2))) == 4


def test_automatic_resets_go_on_with_the_random_stream(workers):
    with Pilot(copies(Random, 2, horizon=1), workers=workers) as pilot:

        def play():
            return [column(pilot.reset(4)[0], 2)] + [column(pilot.step()[0], 2) for _ in range(4)]

        first = play()
        assert play() == first
        assert len({tuple(row) for row in first}) == 5


def test_global_generators_are_left_alone(workers):
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    right = random.random(), np.random.random()  # noqa: NPY002
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    with Pilot(copies(Random, 2), workers=workers) as pilot:
        pilot.reset(1)
        pilot.vec.step(pilot.vec.sample_actions())
    assert (random.random(), np.random.random()) == right  # noqa: NPY002


def test_sampling_can_be_repeated_and_spaces_stay_the_same_objects(workers):
    with Pilot(copies(Ledger, 2), workers=workers) as pilot:
        vec = pilot.vec
        pilot.reset()
        draws = []
        for _ in range(2):
            vec.seed_spaces(3)
            draws.append([vec.sample_actions() for _ in range(5)])
        assert draws[0] == draws[1]
        assert vec.action_space("a") is vec.action_space("a") is vec.action_spaces["a"]
        batched = vec.batched_action_spaces["a"]
        assert batched is vec.batched_action_spaces["a"]


# ---- resets and last observations --------------------------------------------------------


def test_last_observation_stands_beside_the_first_of_the_next_episode(workers):
    factories = [functools.partial(Ledger, tag=4 + k, horizon=2 + k) for k in range(2)]
    with Pilot(factories, workers=workers) as pilot:
        pilot.reset()
        observations, rewards, _, cut, _ = pilot.step(times=2)
        assert pilot.vec.final[1] is None
        assert pilot.vec.final[0]["obs"]["a"].tolist() == [4, 0, 0, 2]
        assert observations[0]["a"].tolist() == [4, 0, 1, 0]
        assert rewards[0]["a"] == 402.0 and cut[0]["a"] is True
        pilot.step()
        assert pilot.vec.final[0] is None and pilot.vec.final[1] is not None


def stepped(env, agent):
    return {"t": env.t, "episode": env.episode}


def test_last_infos_and_first_ones_are_kept_apart(workers):
    with Pilot(copies(Ledger, 2, horizon=2, told=stepped), workers=workers) as pilot:
        pilot.reset()
        infos = pilot.step(times=2)[4]
        assert pilot.vec.final[1]["infos"]["a"] == {"t": 2, "episode": 0}
        assert infos[1]["a"] == {"t": 0, "episode": 1}


class _Reused(Ledger):
    def tell(self, agent):
        self.infos[agent].clear()
        self.infos[agent].update(t=self.t, seen=self.kept[agent])
        return self.infos[agent]


def test_world_that_reuses_its_buffers_changes_nothing_handed_out(workers):
    with Pilot(copies(_Reused, 2, horizon=3, reuse=True), workers=workers) as pilot:
        observations, infos = pilot.reset()
        kept = [(0, 0, observations[1]["a"], infos[1]["a"], None)]
        for t in range(1, 8):
            observations, *_, infos = pilot.step()
            kept.append((t // 3, t % 3, observations[1]["a"], infos[1]["a"], pilot.vec.final[1]))
        for number, (episode, t, seen, info, final) in enumerate(kept):
            assert seen.tolist() == [1, 0, episode, t]
            assert info["t"] == t and info["seen"].tolist() == [1, 0, episode, t]
            if number in (3, 6):
                assert final["obs"]["a"].tolist() == [1, 0, episode - 1, 3]
                assert final["infos"]["a"]["seen"].tolist() == [1, 0, episode - 1, 3]
            else:
                assert final is None


def test_manual_reset_leaves_no_hidden_one_behind(workers):
    with Pilot(copies(Ledger, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        pilot.step(times=2)
        assert pilot.reset()[0][1]["a"].tolist() == [1, 0, 2, 0]
        assert pilot.vec.final == [None, None]
        assert pilot.step()[0][1]["a"].tolist() == [1, 0, 2, 1]


def test_options_reach_the_worlds_in_automatic_resets_too(workers):
    options = {"k": 5}
    with Pilot(copies(Told, 2, horizon=1), workers=workers) as pilot:
        assert column(pilot.reset(0, options=options)[0], 2) == [5, 5]
        assert column(pilot.step()[0], 2) == [5, 5]
        assert column(pilot.reset(0)[0], 2) == [-1, -1]
        assert column(pilot.step()[0], 2) == [-1, -1]
    assert options == {"k": 5}


def test_partial_reset_resets_the_chosen_and_keeps_the_callers_dict(workers):
    options = {"reset_mask": np.array([True, False, False]), "k": 2}
    with Pilot(copies(Told, 3, horizon=9), workers=workers) as pilot:
        pilot.reset(0)
        for _ in range(2):
            pilot.step()
            observations, _ = pilot.vec.reset(options=options)
            assert options["reset_mask"].tolist() == [True, False, False] and options["k"] == 2
            assert observations[0]["a"].tolist() == [0, -1, 2, 0]
        assert pilot.step()[0][2]["a"].tolist() == [2, 2, -1, 3]


def test_parts_of_a_result_have_the_agents_of_their_own_episode(workers):
    options = {"dies": {"a": 1}, "born": {"c": 2}, "horizon": 3, "told": stepped}
    with Pilot(copies(Ledger, 2, **options), workers=workers) as pilot:
        pilot.reset()
        observations, rewards, ended, cut, infos = pilot.step(times=3)
        assert sorted(observations[1]) == sorted(infos[1]) == ["a", "b"]
        assert sorted(rewards[1]) == sorted(ended[1]) == sorted(cut[1]) == ["b", "c"]
        assert sorted(pilot.vec.final[1]["obs"]) == ["b", "c"]
        assert sorted(pilot.vec.final[1]["infos"]) == ["b", "c"]


def test_truncation_is_not_termination(workers):
    options = {"names": ("a", "b"), "dies": {"a": 2}, "leaves": {"b": 2}, "horizon": 9}
    with Pilot(copies(Ledger, 2, **options), workers=workers) as pilot:
        pilot.reset()
        _, _, ended, cut, _ = pilot.step(times=2)
        assert ended[1] == {"a": True, "b": False} and cut[1] == {"a": False, "b": True}
        assert pilot.vec.final[1]["obs"]["b"].tolist() == [1, 1, 0, 2]


def test_results_stay_and_are_the_callers(workers):
    with Pilot(copies(Ledger, 2, horizon=9), workers=workers) as pilot:
        observations, _ = pilot.reset()
        kept = [observations]
        for _ in range(5):
            kept.append(pilot.step()[0])
        for t, rows in enumerate(kept):
            assert column(rows, 3) == [t, t]
            rows[0]["a"][:] = -1
        assert column(pilot.step()[0], 3) == [6, 6]


def test_actions_are_read_before_step_returns_and_not_changed(workers):
    action = np.array([0.5], np.float32)
    kind = functools.partial(Looking, does=Box(-1, 1, (1,), np.float32), names=("a",))
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        pilot.reset()
        given = [{"a": action}, {"a": action}]
        shown = copy.deepcopy(given)
        pilot.vec.step(given)
        action[:] = 9
        assert [row["a"].shape for row in given] == [(1,), (1,)] and shown[0]["a"][0] == 0.5
        kept = pilot.vec.call("actions")
        assert [float(one[0]["a"][0]) for one in kept] == [0.5, 0.5]


# ---- rewards and infos --------------------------------------------------------------------


def test_array_of_one_number_is_a_reward(workers):
    with Pilot(copies(ArrayRewards, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        rewards = [pilot.step()[1][1]["a"] for _ in range(5)]
        assert rewards == [101.0, 102.0, 101.0, 102.0, 101.0]
        assert type(rewards[0]) is float


class _Odd(Ledger):
    def step(self, actions):
        observations, rewards, *others = super().step(actions)
        return observations, {**rewards, "b": np.zeros(2)}, *others


def test_other_rewards_are_errors_that_name_who(workers):
    with Pilot(copies(_Odd, 2), workers=workers) as pilot:
        pilot.reset()
        with pytest.raises(ResultError, match=r"environment [01].*'b'.*reward"):
            pilot.step()


def test_infos_for_everybody_pass_and_disturb_nobody(workers):
    with Pilot(copies(Common, 2, told=stepped), workers=workers) as pilot:
        _, infos = pilot.reset()
        assert infos[1]["__common__"] == {"weather": 3} and infos[1]["a"]["t"] == 0
        infos = pilot.step()[4]
        assert infos[1]["__common__"] == {"weather": 4} and infos[1]["a"]["t"] == 1


def test_infos_that_are_missing_read_as_empty(workers):
    with Pilot(copies(Silent, 2, horizon=3), workers=workers) as pilot:
        _, infos = pilot.reset()
        assert infos[1] == {"a": {}, "b": {}, "c": {}}
        for t in (1, 2, 0, 1):
            infos = pilot.step()[4]
            assert infos[1].get("b", {}) == {}
            assert infos[1]["a"] == ({"x": t} if t else {})


def test_no_two_infos_are_one_object(workers):
    with Pilot([functools.partial(Ledger)] * 2, workers=workers) as pilot:
        pilot.reset()
        infos = pilot.step()[4]
        infos[0]["a"]["mine"] = 1
        assert [info for row in infos for info in row.values()].count({}) == 5


VALUES = {
    "half": 0.5, "whole": 3, "yes": True, "nothing": None, "text": "warm", "bytes": b"\0\1",
    "numbers": np.arange(6, dtype=np.int16).reshape(2, 3), "scalar": np.float32(1.5),
    "nested": {"list": [1, "two", None], "pair": (1, 2.0)}, "big": 2**70, "words": {"x", "y"},
    "empty": np.zeros((0, 3)), "complex": 1 + 2j, "object": np.array([{"k": 1}, None], object),
}  # fmt: skip


def valued(env, agent):
    return {**VALUES, "sum": env.tag + env.t + env.place[agent]}


def test_infos_keep_their_values_and_kinds(workers):
    with Pilot(copies(Ledger, 2, told=valued, horizon=2), workers=workers) as pilot:
        pilot.reset()
        for t in (1, 0, 1):
            infos = pilot.step()[4]
            for tag in range(2):
                info = infos[tag]["b"]
                assert info.pop("sum") == tag + t + 1
                assert set(info) == set(VALUES)
                for key, right in VALUES.items():
                    assert type(info[key]) is type(right), key
                    if isinstance(right, np.ndarray):
                        assert info[key].dtype == right.dtype and info[key].shape == right.shape
                        assert info[key].tolist() == right.tolist()
                    else:
                        assert info[key] == right, key


# ---- spaces -------------------------------------------------------------------------------


def same(got, right):
    if isinstance(right, dict):
        assert set(got) == set(right)
        for key in right:
            same(got[key], right[key])
    elif isinstance(right, tuple):
        assert len(got) == len(right)
        for a, b in zip(got, right, strict=True):
            same(a, b)
    elif isinstance(right, np.ndarray):
        assert got.dtype == right.dtype and np.array_equal(got, right)
    else:
        assert np.asarray(got).shape == () and got == right


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (NESTED, nested),
        (spaces.Text(12), lambda env, agent: f"{agent} at {env.t}"),
        (spaces.Sequence(Discrete(9)), lambda env, agent: tuple(range(env.t + env.tag))),
        (
            spaces.OneOf((Discrete(3), Box(0, 1, (2,)))),
            lambda env, agent: (1, np.full(2, 0.5, np.float32)) if env.t % 2 else (0, 2),
        ),
        (spaces.Tuple((Discrete(5), spaces.MultiBinary(3))),
         lambda env, agent: (env.t % 5, np.array([1, 0, env.tag], np.int8))),
        (spaces.MultiDiscrete([3, 4]), lambda env, agent: np.array([env.tag, env.t % 4])),
        (Discrete(3, start=-1), lambda env, agent: env.tag - 1),
        (spaces.Dict(word=spaces.Text(9), at=Discrete(9)),
         lambda env, agent: {"word": "x" * env.t, "at": env.tag}),
    ],
    ids=["nested", "text", "sequence", "oneof", "tuple", "multidiscrete", "start", "text-in-dict"],
)  # fmt: skip
def test_observations_of_any_space_come_back_as_they_were(workers, space, seen):
    kind = functools.partial(Looking, space=space, seen=seen, horizon=3)
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        observations, _ = pilot.reset()
        twin = [kind(tag=k) for k in range(2)]
        for t in (0, 1, 2, 0, 1):
            for tag, env in enumerate(twin):
                env.t = t
                for agent in "abc":
                    same(observations[tag][agent], seen(env, agent))
            observations, *_ = pilot.step()


def test_graphs_are_delivered_as_they_are(workers):
    kind = functools.partial(Looking, space=GRAPHS, seen=graph, horizon=2)
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        observations, _ = pilot.reset()
        assert observations[1]["a"].nodes.shape == (2, 2)
        nodes = pilot.step()[0][1]["a"].nodes
        assert nodes.shape == (3, 2) and nodes[0, 0] == 1.0
        pilot.step()
        assert pilot.vec.final[1]["obs"]["a"].nodes.shape == (4, 2)


def test_agents_of_different_spaces(workers):
    kind = functools.partial(
        Looking, names=("a", "b"),
        space={"a": Box(-9, 9, (4,), np.float32), "b": Box(0, 255, (2, 3), np.uint8)},
        does={"a": Discrete(3, start=1), "b": Box(-1, 1, (2,), np.float32)},
        seen=lambda env, agent: np.full(4, env.t, np.float32) if agent == "a" else (
            np.full((2, 3), env.t, np.uint8)),
    )  # fmt: skip
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        pilot.reset()
        actions = [{"a": 3, "b": np.array([0.25, k], np.float32)} for k in range(2)]
        observations, *_ = pilot.vec.step(actions)
        assert observations[1]["a"].tolist() == [1] * 4 and observations[1]["a"].dtype == np.float32
        assert observations[1]["b"].tolist() == [[1] * 3] * 2
        assert observations[1]["b"].dtype == np.uint8
        done = pilot.vec.call("actions")[1][0]
        assert done["a"] == 3 and done["b"].tolist() == [0.25, 1.0]
        for _ in range(5):
            pilot.vec.step(pilot.vec.sample_actions())


def test_equal_shapes_with_different_bounds_are_readable(workers):
    factories = [
        functools.partial(Looking, does=Box(-top, top, (1,), np.float32)) for top in (1.0, 2.0)
    ]
    with Pilot(factories, workers=workers) as pilot:
        pilot.reset()
        one = np.array([1.5], np.float32)
        pilot.vec.step([dict.fromkeys("abc", one / 2), dict.fromkeys("abc", one)])
        tops = [float(env["a"][1].high[0]) for env in pilot.vec.env_spaces]
        assert tops == [1.0, 2.0]


def test_environments_with_different_agents(workers):
    factories = [
        functools.partial(Ledger, tag=0, names=("a", "b")),
        functools.partial(Ledger, tag=1, names=("b", "c", "d")),
    ]
    with Pilot(factories, workers=workers) as pilot:
        observations, _ = pilot.reset()
        assert [sorted(row) for row in observations] == [["a", "b"], ["b", "c", "d"]]
        observations, rewards, *_ = pilot.step()
        assert observations[1]["d"].tolist() == [1, 2, 0, 1] and rewards[1]["b"] == 101.0
        assert rewards[0] == {"a": 1.0, "b": 11.0}


class _Double(Ledger):
    def look(self, agent):
        return np.array([0.1, 0.2, 0.3, self.t], np.float64)


def test_wider_numbers_are_cast_to_the_declared_dtype(workers):
    with Pilot(copies(_Double, 2), workers=workers) as pilot:
        pilot.reset()
        seen = pilot.step()[0][1]["a"]
        assert seen.dtype == np.float32 and np.allclose(seen, [0.1, 0.2, 0.3, 1])


class _Fractions(Looking):
    def __init__(self, **options):
        super().__init__(space=Box(0, 255, (4,), np.uint8), **options)


def test_numbers_of_another_kind_are_errors_that_name_who(workers):
    with Pilot(copies(_Fractions, 2), workers=workers) as pilot, pytest.raises(
        ResultError, match=r"environment [01].*'a'.*float32.*uint8|environment [01].*'a'.*uint8"
    ):  # fmt: skip
        pilot.reset()


def test_wrong_shape_is_an_error_that_names_who(workers):
    kind = functools.partial(
        Looking, seen=lambda env, agent: np.zeros(4 if env.t < 1 else 3, np.float32)
    )
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        pilot.reset()
        with pytest.raises(ResultError, match=r"environment [01].*'a'.*\(3,\).*\(4,\)"):
            pilot.step()


def test_wrapper_in_the_factory_keeps_its_effect(workers):
    class Shouting(Ledger):  # a local class travels by value
        def look(self, agent):
            return super().look(agent) * 2

    with Pilot([lambda k=k: Shouting(tag=k) for k in range(2)], workers=workers) as pilot:
        assert pilot.reset()[0][1]["b"].tolist() == [2, 2, 0, 0]


# ---- pictures ------------------------------------------------------------------------------


def test_every_environment_is_drawn_and_the_mode_is_kept(workers):
    kind = functools.partial(Ledger, render_mode="rgb_array")
    with Pilot([functools.partial(kind, tag=40 + k) for k in range(3)], workers=workers) as pilot:
        pilot.reset()
        assert pilot.vec.render_mode == "rgb_array"
        assert [int(picture[0, 0, 0]) for picture in pilot.vec.render()] == [40, 41, 42]
        assert pilot.vec.render(1).shape == (4, 4, 3)


def test_without_a_mode_nothing_is_drawn(workers):
    with Pilot(copies(Ledger, 2), workers=workers) as pilot:
        pilot.reset()
        assert pilot.vec.render_mode is None
        with pytest.warns(UserWarning, match="render_mode"):
            assert pilot.vec.render() is None


def test_single_agent_worlds_and_masks_in_one_vector(workers):
    with Pilot(copies(Masked, 3, names=("only",)), workers=workers) as pilot:
        observations, _ = pilot.reset()
        assert isinstance(pilot.vec.observation_space("only"), gymnasium.spaces.Dict)
        assert [int(np.argmax(row["only"]["action_mask"])) for row in observations] == [0, 1, 2]
        pilot.step(lambda tag: tag)
