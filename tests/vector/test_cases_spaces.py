"""What went wrong for others with rewards, infos, spaces and pictures.

Every test runs with the caller stepping all environments and with workers stepping them.
"""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete

from seer.errors import ResultError

from .case_worlds import (
    GRAPHS,
    NESTED,
    ArrayRewards,
    Common,
    Looking,
    Silent,
    graph,
    nested,
    stepped,
)
from .pilot import Pilot, copies
from .worlds import Ledger, Masked

pytestmark = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "processes"])


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


def test_who_is_absent_is_filler_in_every_leaf(workers):
    """Zero, clipped into the space: legal where zero isn't, and never old data."""
    space = spaces.Dict(
        at=Box(2.0, 5.0, (2,), np.float32),
        kind=Discrete(3, start=4),
        action_mask=Box(0, 1, (5,), np.int8),
        deep=spaces.Tuple((Box(-9, -3, (1,), np.float64),)),
    )

    def seen(env, agent):
        return {
            "at": np.full(2, 4.0, np.float32), "kind": 6, "deep": (np.array([-5.0]),),
            "action_mask": np.eye(5, dtype=np.int8)[1],
        }  # fmt: skip

    kind = functools.partial(Looking, space=space, seen=seen, dies={"b": 1})
    with Pilot(copies(kind, 2), workers=workers, layout="dict") as pilot:
        pilot.vec.reset(seed=0)
        actions = dict.fromkeys("abc", np.array([1, 1]))
        last = pilot.vec.step(actions)[0]["b"]
        assert last["at"].tolist() == [[4.0] * 2] * 2 and last["kind"].tolist() == [6, 6]
        gone = pilot.vec.step(actions)[0]["b"]
        assert gone["at"].tolist() == [[2.0] * 2] * 2
        assert gone["kind"].tolist() == [4, 4]
        assert gone["action_mask"].tolist() == [[1] * 5] * 2  # all False would make a softmax NaN
        assert gone["deep"][0].tolist() == [[-3.0]] * 2
