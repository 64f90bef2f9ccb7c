"""Infos of many environments as arrays with masks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from seer.errors import ResultError
from seer.vector.contract import OBSERVED, Side, VecSpec, group_agents
from seer.vector.frames import FrameLayout
from seer.vector.infos import (
    batch_infos,
    copy_info,
    final_entries,
    flat_final_entries,
    flat_infos,
)
from seer.vector.make import make_vec

from .worlds import Ledger

BOX = Box(-1, 1, (2,), np.float32)


def a_spec(agents: tuple[str, ...] = ("a", "b"), n: int = 3, **more: Any) -> VecSpec:
    spaces = {agent: (more.pop("space", BOX), Discrete(3)) for agent in agents}
    return VecSpec(n, agents, group_agents(agents, spaces), "parallel", **more)


def a_side(*infos: dict[str, Any]) -> Side:
    side = Side()
    side.infos = {env: info for env, info in enumerate(infos) if info}
    return side


def same(got: Any, want: Any, ordered: bool = False) -> None:
    """Equal in nesting, types, dtypes and values; also in the order of keys, if `ordered`."""
    assert type(got) is type(want), (got, want)
    if isinstance(want, dict):
        assert (list if ordered else set)(got) == (list if ordered else set)(want)
        for key in want:
            same(got[key], want[key], ordered)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
        if want.dtype == object:
            for x, y in zip(got.ravel(), want.ravel(), strict=True):
                same(x, y, ordered)
        else:
            np.testing.assert_array_equal(got, want)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            same(x, y, ordered)
    else:
        assert got == want or (got != got and want != want)


# ---- dict and stacked -----------------------------------------------------------------


def test_an_array_and_a_mask_for_each_key_of_each_agent() -> None:
    got = batch_infos(
        a_spec(), a_side({"a": {"x": 1}, "b": {"x": 4}}, {}, {"b": {"x": 6}, "a": {"y": 0.5}})
    )
    same(got, {
        "a": {"x": np.array([1, 0, 0]), "_x": np.array([True, False, False]),
              "y": np.array([0, 0, 0.5]), "_y": np.array([False, False, True])},
        "b": {"x": np.array([4, 0, 6]), "_x": np.array([True, False, True])},
    })  # fmt: skip


def test_nothing_reported_is_an_empty_dict_of_ones_own() -> None:
    got = batch_infos(a_spec(), Side())
    assert got == {"a": {}, "b": {}}
    got["a"]["mine"] = 1
    assert got["b"] == {} and batch_infos(a_spec(), Side()) == {"a": {}, "b": {}}


def test_agents_in_another_order_in_each_environment() -> None:
    got = batch_infos(
        a_spec(n=2), a_side({"b": {"x": 1, "y": 2}, "a": {"y": 3, "x": 4}}, {"a": {"x": 5, "y": 6},
                                                                          "b": {"y": 7, "x": 8}})
    )  # fmt: skip
    assert got["a"]["x"].tolist() == [4, 5] and got["a"]["y"].tolist() == [3, 6]
    assert got["b"]["x"].tolist() == [1, 8] and got["b"]["y"].tolist() == [2, 7]


def test_a_half_stays_a_half_beside_an_int() -> None:
    for values in ([1, 0.5], [0.5, 1]):
        column = batch_infos(a_spec(n=2), a_side(*({"a": {"x": v}} for v in values)))["a"]["x"]
        assert column.tolist() == values and column.dtype == np.float64


def test_kinds_are_kept_agent_by_agent() -> None:
    got = batch_infos(a_spec(n=2), a_side({"a": {"x": 1}, "b": {"x": 0.5}},
                                          {"a": {"x": 2}, "b": {"x": 1.5}}))  # fmt: skip
    same(got["a"]["x"], np.array([1, 2]))
    same(got["b"]["x"], np.array([0.5, 1.5]))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], np.bool_),
        ([np.True_, False], np.bool_),
        ([np.float32(1.5), np.float32(2)], np.float32),
        ([np.int8(3), 4], np.int64),
        ([np.float32(0.1), 0.1], np.float64),
        (["left", "right"], object),
        ([None, 3.0], object),
        ([None, None], object),
        ([True, 3], object),
        ([2**70, 1], object),
        ([2**53 + 1, 0.5], object),
        ([np.uint64(2**63), np.int64(-1)], object),
        ([[1, 2], [3]], object),
        ([(1, 2), {3}], object),
        ([np.zeros(2), np.zeros(3)], object),
        ([np.zeros(2), 1.0], object),
        ([np.array([True]), np.array([2])], object),
        ([{"x": 1}, 3], object),
        ([np.zeros(2, np.float32), np.ones(2, np.float32)], np.float32),
        ([np.zeros(2, np.float32), np.ones(2, np.float64)], np.float64),
        ([np.array(3), np.array(4)], np.int64),
        ([np.array(["ab"]), np.array(["cdef"])], np.dtype("U4")),
    ],
)
def test_values_keep_their_kind(values: list[Any], dtype: Any) -> None:
    for infos in (
        batch_infos(a_spec(n=3), a_side(*({"a": {"v": v}} for v in values)))["a"],
        {"v": batch_infos(a_spec(n=3), a_side(*({"w": v} for v in values)))["w"]}
        if not isinstance(values[0], dict) else None,
    ):  # fmt: skip
        if infos is None:
            continue
        column = infos["v"]
        assert column.dtype == dtype and len(column) == 3
        for got, want in zip(column, values, strict=False):
            if column.dtype.hasobject:
                same(got, want)
            else:
                np.testing.assert_array_equal(got, want)
        if column.dtype.hasobject:
            assert column[2] is None


def test_a_dict_as_value_is_gone_into() -> None:
    got = batch_infos(
        a_spec(n=2), a_side({"a": {"d": {"x": 1, "e": {"y": 2.0}}}}, {"a": {"d": OrderedDict(x=3)}})
    )
    yes, first = np.array([True, True]), np.array([True, False])
    same(got["a"], {
        "d": {"x": np.array([1, 3]), "_x": yes,
              "e": {"y": np.array([2.0, 0.0]), "_y": first}, "_e": first},
        "_d": yes,
    })  # fmt: skip
    same(batch_infos(a_spec(n=1), a_side({"a": {"d": {}}}))["a"],
         {"d": {}, "_d": np.array([True])})  # fmt: skip


def test_keys_for_everybody_stand_beside_the_agents() -> None:
    got = batch_infos(
        a_spec(n=2), a_side({"a": {"x": 1}, "__common__": {"weather": 3}, "wind": 0.5},
                            {"__common__": {"weather": 4, "rain": True}})
    )  # fmt: skip
    assert got["a"]["x"].tolist() == [1, 0] and got["b"] == {}
    same(got["__common__"], {
        "weather": np.array([3, 4]), "_weather": np.array([True, True]),
        "rain": np.array([False, True]), "_rain": np.array([False, True]),
    })  # fmt: skip
    same(got["___common__"], np.array([True, True]))
    same(got["wind"], np.array([0.5, 0.0]))
    same(got["_wind"], np.array([True, False]))


def test_rows_for_some_environments_only() -> None:
    side = a_side({"a": {"x": 0}}, {"a": {"x": 10}}, {"a": {"x": 20}})
    got = batch_infos(a_spec(), side, np.array([0, 2]))
    same(got["a"], {"x": np.array([0, 20]), "_x": np.array([True, True])})
    same(flat_infos(a_spec(), side, [1, 2])["x"], np.array([10, 0, 20, 0]))


def test_an_agent_in_a_reserved_slot() -> None:
    spec = a_spec(("a", "slot_1"), n=2, reserved=1)
    side = a_side({"newcomer": {"x": 1}}, {"other": {"x": 2}})
    side.slots = {0: {"newcomer": 1}, 1: {"other": 1}}
    assert batch_infos(spec, side)["slot_1"]["x"].tolist() == [1, 2]
    assert flat_infos(spec, side)["x"].tolist() == [0, 1, 0, 2]


def test_an_info_that_is_no_dict_names_environment_and_agent() -> None:
    for batch in (batch_infos, flat_infos):
        with pytest.raises(ResultError, match=r"environment 1.*'b'.*dict.*7") as caught:
            batch(a_spec(), a_side({}, {"b": 7}))
        assert (caught.value.env, caught.value.agent) == (1, "b")


def buffers(value: Any) -> list[Any]:
    """Every object in it that can be changed."""
    if isinstance(value, dict):
        return [value, *(x for v in value.values() for x in buffers(v))]
    if isinstance(value, (list, tuple)):
        return [value, *(x for v in value for x in buffers(v))]
    if isinstance(value, np.ndarray):
        inner = [x for v in value for x in buffers(v)] if value.dtype == object else []
        return [value, *inner]
    return []


def test_no_two_infos_share_an_object() -> None:
    side = a_side(*({n: {"x": [1], "d": {"y": np.zeros(2)}, "z": 3} for n in ("a", "b", "all")}
                    for _ in range(3)))  # fmt: skip
    for got in (batch_infos(a_spec(), side), flat_infos(a_spec(), side)):
        found = buffers(got)
        assert len({id(x) for x in found}) == len(found)
        arrays = [x for x in found if isinstance(x, np.ndarray)]
        for k, x in enumerate(arrays):
            assert not any(np.shares_memory(x, y) for y in arrays[k + 1 :])


# ---- flat, against Gymnasium ----------------------------------------------------------


class Told(gymnasium.Env[Any, Any]):
    """An environment whose infos are given."""

    observation_space = Box(-9, 9, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self, infos: list[dict[str, Any]], last: int) -> None:
        self._infos, self._last, self._t = infos, last, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(2, np.float32), dict(self._infos[0])

    def step(self, action: Any) -> Any:
        self._t += 1
        obs = np.full(2, self._t, np.float32)
        return obs, 0.0, self._t == self._last, False, dict(self._infos[self._t])


KINDS = [
    st.integers(-5, 5), st.floats(allow_nan=False, width=32), st.booleans(), st.text(max_size=3),
    st.none(), st.integers(0, 3).map(np.int16), st.booleans().map(np.bool_),
    st.lists(st.integers(0, 9), min_size=2, max_size=2).map(np.array),
    st.lists(st.integers(0, 9), max_size=3), st.integers(0, 9).map(lambda x: np.array(x * 0.5)),
    st.integers(0, 4).map(lambda x: {"n": x, "m": {"deep": x * 0.5}}), st.just({}),
]  # fmt: skip


@st.composite
def told(draw: Any) -> list[list[dict[str, Any]]]:
    kinds = {key: draw(st.sampled_from(KINDS)) for key in "uvwxyz"[: draw(st.integers(0, 6))]}
    one = st.fixed_dictionaries({}, optional=kinds)
    return draw(st.lists(st.lists(one, min_size=4, max_size=4), min_size=1, max_size=4))


@settings(deadline=None, max_examples=60)
@given(told())
def test_flat_is_what_the_gymnasium_vector_gives(infos: list[list[dict[str, Any]]]) -> None:
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    n, lasts = len(infos), [2 + k % 2 for k in range(len(infos))]
    theirs = SyncVectorEnv(
        [lambda k=k: Told(infos[k], lasts[k]) for k in range(n)],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    spec = VecSpec(
        n, ("agent_0",),
        group_agents(("agent_0",), {"agent_0": (Told.observation_space, Discrete(2))}),
        "gymnasium", mode="same_step",
    )  # fmt: skip
    own = [Told(infos[k], lasts[k]) for k in range(n)]
    _, want = theirs.reset()
    same(flat_infos(spec, a_side(*({"agent_0": e.reset()[1]} for e in own))), want)
    for _ in range(3):
        *_, want = theirs.step(np.zeros(n, int))
        frame = FrameLayout(spec).new()
        frame.acted[:] = True
        for k, env in enumerate(own):
            obs, _, ended, _, info = env.step(0)
            if ended:
                frame.over[k], frame.final_seen[k] = True, OBSERVED
                frame.final_obs[0][0][k, 0] = obs
                frame.side.final_infos[k] = {"agent_0": info}
                info = env.reset()[1]
            frame.side.infos[k] = {"agent_0": info}
        got = flat_infos(spec, frame.side)
        if frame.over.any():
            got.update(flat_final_entries(spec, frame))
        same(got, want)
    theirs.close()


def test_flat_keeps_what_gymnasium_would_lose() -> None:
    spec = a_spec(("a",), n=2)
    same(flat_infos(spec, a_side({"a": {"x": 1}}, {"a": {"x": 0.5}}))["x"], np.array([1, 0.5]))
    ragged = flat_infos(spec, a_side({"a": {"x": np.zeros(2)}}, {"a": {"x": np.zeros(3)}}))["x"]
    assert ragged.dtype == object and ragged[1].shape == (3,)
    words = flat_infos(spec, a_side({"a": {"x": 1}}, {"a": {"x": "b"}}))["x"]
    assert words.tolist() == [1, "b"]


def test_flat_rows_are_environment_major_and_shared_keys_fill_them() -> None:
    got = flat_infos(
        a_spec(n=2), a_side({"a": {"x": 1}, "b": {"x": 2}}, {"b": {"x": 4}, "all": [1],
                                                             "worker_restarted": True})
    )  # fmt: skip
    assert got["x"].tolist() == [1, 2, 0, 4] and got["_x"].tolist() == [True, True, False, True]
    assert got["all"].tolist() == [None, None, [1], [1]] and got["all"][2] is not got["all"][3]
    same(got["worker_restarted"], np.array([False, False, True, True]))
    same(got["_worker_restarted"], np.array([False, False, True, True]))


# ---- the ends of episodes --------------------------------------------------------------


def test_last_observations_and_infos_of_an_episode() -> None:
    space = Dict({"observation": BOX, "action_mask": Box(0, 1, (3,), np.int8)})
    spec = a_spec(n=3, space=space, mode="same_step", has_state=True)
    frame = FrameLayout(spec).new()
    frame.over[1] = True
    frame.acted[:] = [[True, True], [True, False], [True, True]]
    frame.final_seen[1] = [OBSERVED, 0]
    mask, box = (frame.final_obs[0][k] for k in range(2))
    mask[1, 0], box[1, 0] = [1, 0, 1], [0.5, -0.5]
    frame.side.final_infos = {1: {"a": {"score": 3}, "all": 0.5}}
    frame.side.final_state = {1: np.array([1.0, 2.0])}
    ended = np.array([False, True, False])

    got = final_entries(spec, frame)
    assert [x is None for x in got["final_obs"]["a"]] == [True, False, True]
    last = got["final_obs"]["a"][1]
    np.testing.assert_array_equal(last["action_mask"], [1, 0, 1])
    np.testing.assert_array_equal(last["observation"], np.float32([0.5, -0.5]))
    assert not np.shares_memory(last["observation"], frame.root)
    assert got["final_obs"]["b"].tolist() == [None] * 3
    same(got["_final_obs"], ended)
    same(got["final_obs"]["_a"], ended)
    same(got["final_obs"]["_b"], np.zeros(3, bool))
    same(got["final_info"]["a"], {"score": np.array([0, 3, 0]), "_score": ended})
    same(got["final_info"]["all"], np.array([0, 0.5, 0]))
    assert got["final_info"]["b"] == {}
    same(got["final_state"], np.array([[0, 0], [1.0, 2], [0, 0]]))
    same(got["_final_state"], ended)

    flat = flat_final_entries(spec, frame)
    assert [x is None for x in flat["final_obs"]] == [True] * 2 + [False] + [True] * 3
    same(flat["_final_obs"], np.array([0, 0, 1, 0, 0, 0], bool))
    same(flat["final_info"]["score"], np.array([0, 0, 3, 0, 0, 0]))
    np.testing.assert_array_equal(flat["final_state"][3], [1.0, 2.0])


def test_they_are_there_only_when_something_ended() -> None:
    spec = a_spec(mode="same_step")
    frame = FrameLayout(spec).new()
    assert batch_infos(spec, frame.side, frame=frame) == {"a": {}, "b": {}}
    frame.over[0] = True
    assert set(batch_infos(spec, frame.side, frame=frame)) == {
        "a", "b", "final_obs", "_final_obs", "final_info", "_final_info",
    }  # fmt: skip


# ---- copies -----------------------------------------------------------------------------


def test_copies_share_nothing() -> None:
    info = {"n": 1, "a": np.zeros(3), "l": [np.zeros(1), {"x": [1]}], "t": ([1],), "s": {1},
            "o": OrderedDict(a=[1]), "objects": np.array([[1], None], object)}  # fmt: skip
    out = copy_info(info)
    same(out, info)
    theirs = {id(x) for x in buffers(info)}
    assert not theirs & {id(x) for x in buffers(out)}
    out["l"][1]["x"].append(2)
    out["objects"][0].append(2)
    assert info["l"][1]["x"] == [1] and info["objects"][0] == [1]


def test_what_holds_itself_and_what_cannot_be_copied() -> None:
    knot: dict[str, Any] = {"x": 1}
    knot["self"] = knot
    out = copy_info(knot)
    assert out is not knot and out["self"] is out
    lock = threading.Lock()
    assert copy_info({"lock": lock, "x": [1]})["lock"] is lock


# ---- from environments to the caller -----------------------------------------------------


def rich(world: Any, agent: str) -> dict[str, Any]:
    """An info of every kind, other ones in other steps."""
    info: dict[str, Any] = {
        "t": world.t, "share": world.t * 0.5, "mixed": 0.5 if world.tag else 1,
        "odd": world.t % 2 == 1, "name": f"{agent} {world.t}", "none": None,
        "place": np.full(2, world.t), "ragged": np.zeros(world.tag + 1), "list": [world.t],
        "deep": {"t": world.t, "more": {"tag": world.tag}},
    }  # fmt: skip
    return info if world.t < 3 else {"t": world.t}


class Common(Ledger):
    """With a key for everybody."""

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        obs, infos = super().reset(seed, options)
        return obs, {**infos, "__common__": {"weather": self.t}, "wind": 0.5}

    def step(self, actions: Any) -> Any:
        *out, infos = super().step(actions)
        return (*out, {**infos, "__common__": {"weather": self.t}, "wind": 0.5})


def timeless(infos: Any) -> Any:
    """Without the one thing that is never twice the same."""
    if isinstance(infos, dict):
        infos.get("episode", {}).pop("t", None)
    return infos


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("layout", ["dict", "stacked", "list", "flat"])
def test_infos_are_the_same_from_other_processes(layout: str, mode: str) -> None:
    worlds = [partial(Common, tag=k, told=rich, horizon=3 + k, dies={"b": 2}) for k in range(4)]
    vecs = [
        make_vec(worlds, layout=layout, autoreset=mode, probe=False, **how)
        for how in ({"backend": "serial"}, {"backend": "process", "workers": 2})
    ]
    own, other = (vec.reset(seed=0)[1] for vec in vecs)
    same(other, own)
    for _ in range(9):
        actions = vecs[0].sample_actions()
        own, other = (timeless(vec.step(actions)[4]) for vec in vecs)
        same(other, own)
        found = buffers(other)
        assert len({id(x) for x in found}) == len(found)
    for vec in vecs:
        vec.close()


def test_what_cannot_leave_its_process_is_named() -> None:
    def told(world: Any, agent: str) -> dict[str, Any]:
        return {"door": threading.Lock()} if world.tag == 1 and world.t == 1 else {}

    worlds = [partial(Ledger, tag=k, told=told) for k in range(3)]
    vec = make_vec(worlds, layout="dict", backend="process", workers=2, probe=False)
    vec.reset()
    with pytest.raises(ResultError, match=r"environment 1, 'a', key 'door'.*lock"):
        vec.step({agent: [1] * 3 for agent in vec.agents})
    vec.close()


class Guests(Ledger):
    """Two guests from the beginning of an even episode, one in an odd one, under new names."""

    def observation_space(self, agent: str) -> Any:
        return self.boxes["a"]

    def action_space(self, agent: str) -> Any:
        return self.choices["a"]

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        obs, infos = super().reset(seed, options)
        for k in range(2 - self.episode % 2):
            guest = f"guest_{self.episode}_{k}"
            self.agents.append(guest)
            self.place[guest] = 2 + k
            obs[guest], infos[guest] = self.look(guest), self.tell(guest)
        return obs, infos


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_last_infos_of_guests_are_in_the_slots_they_had(backend: str) -> None:
    def told(world: Any, agent: str) -> dict[str, Any]:
        return {"place": world.place[agent], "episode": world.episode, "name": agent}

    vec = make_vec(
        [partial(Guests, names=("a", "b"), horizon=2, told=told)] * 2, layout="dict",
        backend=backend, workers=2 if backend == "process" else None, probe=False, max_agents=2,
        autoreset="same_step",
    )  # fmt: skip
    vec.reset(seed=0)
    for _ in range(4):
        *_, infos = vec.step(vec.sample_actions())
        if not vec.episode_over.all():
            continue
        episode = int(infos["a"]["episode"][0])
        last, now = infos["final_info"], infos
        for told_, of in ((last, episode - 1), (now, episode)):
            assert {key for key in told_ if "final" not in key} == {*vec.agents}
            for k, slot in enumerate(vec.agents[2:]):
                there = k < 2 - of % 2
                assert bool(told_[slot]) is there
                if there:
                    assert told_[slot]["place"].tolist() == [2 + k] * 2
                    assert told_[slot]["name"].tolist() == [f"guest_{of}_{k}"] * 2
        assert [len(slots) for slots in vec.slots] == [2 - episode % 2] * 2
    vec.close()
