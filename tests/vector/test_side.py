"""What arrays can't carry, on its way between processes."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seer.errors import ResultError
from seer.vector.contract import Side, VecSpec, group_agents
from seer.vector.infos import batch_infos, flat_infos
from seer.vector.side import dumps, loads

from .test_infos import buffers, same

FIELDS = ("final_infos", "final_state", "extras", "slots", "final_slots", "objects")
AGENTS = ("a", "b", "c")
SPACES = {agent: (Box(-1, 1, (2,)), Discrete(2)) for agent in AGENTS}
SPEC = VecSpec(4, AGENTS, group_agents(AGENTS, SPACES), "parallel")

NUMBERS = (
    st.booleans() | st.integers(-3, 3) | st.integers() | st.floats() | st.floats().map(np.float64)
    | st.integers(0, 9).map(np.uint8) | st.booleans().map(np.bool_)
)  # fmt: skip
OTHERS = st.recursive(
    st.none() | st.text(max_size=3) | st.dates() | st.complex_numbers(allow_nan=False)
    | arrays.arrays(st.sampled_from([np.float32, np.int64, np.bool_]), st.sampled_from(
        [(), (0,), (3,), (40, 50)]), elements={"allow_nan": False}, fill=st.just(1)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner,
                                                                max_size=2),
    max_leaves=3,
)  # fmt: skip
INFO = st.dictionaries(st.sampled_from(["u", "v", "w", 7, ("x", 1)]), NUMBERS | OTHERS, max_size=4)
NAMED = st.dictionaries(st.sampled_from([*AGENTS, 3]), INFO, max_size=3)
SHARED = st.dictionaries(
    st.sampled_from(["__common__", "wind"]), INFO | NUMBERS | OTHERS, max_size=1
)
INFOS = st.dictionaries(
    st.integers(0, 3), st.tuples(NAMED, SHARED).map(lambda two: {**two[0], **two[1]}), max_size=4
)


@settings(deadline=None, max_examples=80)
@given(INFOS, INFOS, st.dictionaries(st.integers(0, 3), OTHERS, max_size=2))
def test_what_went_in_comes_out(infos: Any, final_infos: Any, states: Any) -> None:
    side = Side()
    side.infos, side.final_infos, side.final_state = infos, final_infos, states
    side.extras = {1: {"obs": {"guest": np.zeros(2)}, "rewards": {"guest": 0.5}}}
    side.slots, side.final_slots = {2: {"guest": 3}}, {2: {"last": 4}}
    side.objects = {("obs", 0, 1): {(2, 0): "text"}}
    out = loads(dumps(side))
    for name in FIELDS:
        same(getattr(out, name), getattr(side, name))
    again = loads(dumps(out))
    same(out.infos, infos)
    same(again.infos, infos)
    for env, named in infos.items():
        for name, info in named.items():
            same(out.infos[env][name], info, ordered=True)
    assert bool(loads(dumps(Side()))) is False


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(AGENTS),
            st.dictionaries(st.sampled_from("uvw"), NUMBERS | OTHERS, min_size=1, max_size=3)
            | st.fixed_dictionaries({"u": st.integers(0, 9), "v": st.floats(0, 1)}),
        ).flatmap(
            lambda named: st.sampled_from([named, {**named, "__common__": {"u": 0.5}}])
        ),
        min_size=4, max_size=4,
    ),
    st.integers(0, 4),
)  # fmt: skip
def test_arrays_from_columns_are_those_from_dicts(infos: list[Any], cut: int) -> None:
    def sides() -> list[Side]:
        out = [Side(), Side()]
        for env, named in enumerate(infos):
            if named:
                out[env >= cut].infos[env] = named
        return out

    there, travelled = Side(), Side()
    for one in sides():
        there.update(one)
        travelled.update(loads(dumps(one)))
    for batch in (batch_infos, flat_infos):
        same(batch(SPEC, loads(dumps(travelled))), batch(SPEC, there))
        same(batch(SPEC, loads(dumps(travelled)), [3, 1]), batch(SPEC, there, [3, 1]))
    same(travelled.infos, there.infos)


def test_numbers_travel_in_columns_and_arrays_beside_the_pickle() -> None:
    side = Side()
    side.infos = {e: {a: {"x": 0.5, "y": 3} for a in AGENTS} for e in range(4)}
    out = loads(dumps(side))
    assert [key for key, *_ in out.columns[0].columns] == ["x", "y"] and out.rest == {}
    batch_infos(SPEC, out)
    assert out.rest == {}, "dicts were made only to be taken apart"
    picture = np.arange(10_000.0)
    side.infos = {0: {"a": {"picture": picture}}}
    packed = dumps(side)
    assert packed.endswith(picture.tobytes())


def test_nothing_is_shared_with_the_bytes() -> None:
    side = Side()
    side.infos = {0: {"a": {"n": 0.5, "small": np.ones(3), "large": np.ones(9000)}}}
    side.final_state = {0: np.ones(9000)}
    room = bytearray(dumps(side))
    out = loads(memoryview(room))
    room[:] = bytes(len(room))
    room.clear()  # fails where somebody still holds a view
    same(out.infos, side.infos)
    same(out.final_state, side.final_state)
    for array in [x for x in buffers(out.infos) if isinstance(x, np.ndarray)]:
        array += 1.0


def test_what_pickle_refuses_goes_by_cloudpickle() -> None:
    class Local:
        def __init__(self, x: int) -> None:
            self.x = x

    side = Side()
    side.infos = {0: {"a": {"f": lambda x: x + 1, "o": Local(3), "n": 1}}}
    info = loads(dumps(side)).infos[0]["a"]
    assert info["f"](1) == 2 and info["o"].x == 3 and info["n"] == 1


@pytest.mark.parametrize("field", ["infos", "final_infos"])
def test_what_nothing_can_pickle_is_named(field: str) -> None:
    side = Side()
    setattr(side, field, {3: {"b": {"fine": 1, "door": threading.Lock()}}})
    with pytest.raises(ResultError, match=r"environment 3, 'b', key 'door'.*lock") as caught:
        dumps(side)
    assert (caught.value.env, caught.value.agent, caught.value.key) == (3, "b", "door")


def test_an_environment_of_its_own_kind_of_trouble() -> None:
    class Rude:
        def __reduce__(self) -> Any:
            raise ValueError("no")

        def __repr__(self) -> str:
            raise ValueError("not even that")

    side = Side()
    side.final_state = {1: Rude()}
    with pytest.raises(ResultError, match=r"environment 1, key 'state'.*Rude.*ValueError: no"):
        dumps(side)


def test_dates_are_kept() -> None:
    side = Side()
    side.infos = {0: {"a": {"when": datetime.date(2020, 1, 2)}}}
    assert loads(dumps(side)).infos[0]["a"]["when"] == datetime.date(2020, 1, 2)
