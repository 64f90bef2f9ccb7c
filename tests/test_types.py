import dataclasses
import math

import numpy as np
import pytest

import seer
from seer.errors import ConfigError
from seer.types import MAX_THREADS, PoolConfig


def test_pool_config_defaults():
    pool = PoolConfig(2)
    assert (pool.threads, pool.axis, pool.grain, pool.spin_us, pool.pin) == (
        2, "worlds", 0, 20.0, False,
    )  # fmt: skip
    assert (pool.share, pool.shuffle) == (False, 0)
    assert seer.PoolConfig is PoolConfig


def test_pool_config_is_frozen_hashable_and_comparable():
    pool = PoolConfig(threads=2, axis="lanes", grain=64)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pool.threads = 3  # type: ignore[misc]
    assert pool == PoolConfig(2, "lanes", 64)
    assert len({pool, PoolConfig(2, "lanes", 64), PoolConfig(2)}) == 2
    assert dataclasses.replace(pool, threads=4).threads == 4


def test_pool_config_numpy_numbers_become_python_numbers():
    pool = PoolConfig(np.int32(3), grain=np.uint8(7), spin_us=np.float32(5), pin=np.bool_(True))
    assert [type(v) for v in (pool.threads, pool.grain, pool.spin_us, pool.pin)] == [
        int, int, float, bool,
    ]  # fmt: skip
    assert pool == PoolConfig(3, grain=7, spin_us=5.0, pin=True)


def test_pool_config_spin_given_as_int_is_a_float():
    assert isinstance(PoolConfig(1, spin_us=0).spin_us, float)


@pytest.mark.parametrize("threads", [1, MAX_THREADS])
def test_pool_config_bounds_are_inclusive(threads):
    assert PoolConfig(threads).threads == threads


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"threads": -3}, "threads must be at least 1, got -3"),
        ({"threads": MAX_THREADS + 1}, f"threads must be at most {MAX_THREADS}, got 65"),
        ({"threads": 2.0}, "threads must be a whole number, got float"),
        ({"threads": "2"}, "threads must be a whole number, got str"),
        ({"threads": None}, "threads must be a whole number, got NoneType"),
        ({"threads": True}, "threads must be a whole number, got a bool"),
        ({"threads": 1, "axis": "world"}, "axis must be 'worlds' or 'lanes'"),
        ({"threads": 1, "axis": None}, "axis must be 'worlds' or 'lanes'"),
        ({"threads": 1, "grain": -1}, "grain must be at least 0, got -1"),
        ({"threads": 1, "grain": 1.5}, "grain must be a whole number, got float"),
        ({"threads": 1, "spin_us": -1}, "spin_us must lie in"),
        ({"threads": 1, "spin_us": math.nan}, "spin_us must lie in"),
        ({"threads": 1, "spin_us": math.inf}, "spin_us must lie in"),
        ({"threads": 1, "spin_us": "20"}, "spin_us must be a number of microseconds, got str"),
        ({"threads": 1, "pin": 1}, "pin must be True or False"),
        ({"threads": 1, "share": "yes"}, "share must be True or False"),
        ({"threads": 1, "shuffle": -1}, "shuffle must be at least 0"),
        ({"threads": 1, "shuffle": 2**64}, "shuffle must be at most"),
    ],
)
def test_pool_config_bad_value_says_what_was_expected_and_what_came(kwargs, expected):
    with pytest.raises(ConfigError, match=expected.replace("[", r"\[")) as caught:
        PoolConfig(**kwargs)
    assert isinstance(caught.value, ValueError)


def test_pool_config_str_is_a_sentence():
    assert str(PoolConfig(1)) == "1 thread over worlds, grain auto, spin 20 us"
    assert str(PoolConfig(2, "lanes", 64, 0, True)) == (
        "2 threads over lanes, grain 64, spin 0 us, pinned"
    )
