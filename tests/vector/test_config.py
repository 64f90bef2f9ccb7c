"""How environments are shared among processes, and the rule that decides it."""

import itertools

import numpy as np
import pytest

from seer.errors import ConfigError
from seer.vector import ProcessConfig
from seer.vector.config import HANDOVER, choose, deal


def test_texts():
    assert str(ProcessConfig(0)) == "the caller alone"
    assert str(ProcessConfig(1)) == "1 worker and the caller, spin auto"
    assert str(ProcessConfig(2, caller_share=0, spin_us=50, pin=True)) == (
        "2 workers, spin 50 us, pinned"
    )
    text = str(ProcessConfig(2, caller_share=0.25, envs_per_worker=3))
    assert text == (
        "2 workers and the caller with 25% of the work, at most 3 environments each, spin auto"
    )
    assert eval(repr(ProcessConfig(2, 0.5, 3, 1.0, True))) == ProcessConfig(2, 0.5, 3, 1.0, True)
    assert ProcessConfig(1, reason="because").explain() == f"{ProcessConfig(1)}: because"
    assert ProcessConfig(1, reason="because") == ProcessConfig(1)


def test_it_is_frozen_and_normal():
    config = ProcessConfig(np.int64(2), caller_share=np.float32(0.5), pin=np.True_)
    assert type(config.workers) is int and type(config.caller_share) is float
    assert config.pin is True
    with pytest.raises(AttributeError):
        config.workers = 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"workers": 1025}, "workers must be at most 1024, got 1025"),
        ({"workers": 1.5}, "workers must be a whole number, got float"),
        ({"workers": True}, "workers must be a whole number, got a bool"),
        ({"workers": "2"}, "workers must be a whole number, got str"),
        ({"workers": 1, "caller_share": 1.5}, r"caller_share must lie in \[0, 1\]"),
        ({"workers": 1, "caller_share": float("nan")}, r"caller_share must lie in \[0, 1\]"),
        ({"workers": 1, "caller_share": "all"}, "caller_share must be a number, got str"),
        ({"workers": 1, "caller_share": 1}, "leaves nothing to workers"),
        ({"workers": 0, "caller_share": 0.5}, "without workers"),
        ({"workers": 1, "envs_per_worker": 0}, "envs_per_worker must be at least 1"),
        ({"workers": 1, "spin_us": -1}, r"spin_us must lie in \[0, 1000000\] us"),
        ({"workers": 1, "spin_us": True}, "spin_us must be a number, got a bool"),
        ({"workers": 1, "pin": 1}, "pin must be True or False"),
    ],
)
def test_illegal_values(arguments, words):
    with pytest.raises(ConfigError, match=words):
        ProcessConfig(**arguments)


# ---- the deal --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "config", "ranges"),
    [
        (8, ProcessConfig(0), [(0, 8)]),
        (8, ProcessConfig(1), [(0, 4), (4, 8)]),
        (9, ProcessConfig(1), [(0, 4), (4, 9)]),  # the caller has more to do already
        (8, ProcessConfig(2, 0.0), [(0, 0), (0, 4), (4, 8)]),
        (3, ProcessConfig(3), [(0, 0), (0, 1), (1, 2), (2, 3)]),
        (1, ProcessConfig(1), [(0, 0), (0, 1)]),
        (8, ProcessConfig(2, 0.25), [(0, 2), (2, 5), (5, 8)]),
        (8, ProcessConfig(2, 0.01), [(0, 1), (1, 4), (4, 8)]),
        (8, ProcessConfig(2, 0.99), [(0, 6), (6, 7), (7, 8)]),
        (8, ProcessConfig(2, envs_per_worker=1), [(0, 6), (6, 7), (7, 8)]),
        (8, ProcessConfig(2, envs_per_worker=7), [(0, 2), (2, 5), (5, 8)]),
    ],
)
def test_equal_environments(n, config, ranges):
    assert deal(n, config) == ranges


def test_more_workers_than_environments():
    with pytest.raises(ConfigError, match="3 workers for 2 environments"):
        deal(2, ProcessConfig(3))
    with pytest.raises(ConfigError, match="can't hold 8"):
        deal(8, ProcessConfig(2, 0.0, envs_per_worker=3))


def best(costs, parts):
    """The lightest that the heaviest of `parts` contiguous ranges can be, by trying them all."""
    n = len(costs)
    found = np.inf
    for cuts in itertools.combinations(range(1, n), parts - 1):
        ends = (0, *cuts, n)
        found = min(found, max(costs[a:b].sum() for a, b in itertools.pairwise(ends)))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_unequal_environments_are_dealt_as_well_as_can_be(seed):
    rng = np.random.default_rng(seed)
    n, workers = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    costs = rng.pareto(1.2, n) + 0.1
    for share in (None, 0.0):
        ranges = deal(n, ProcessConfig(workers, share), costs)
        assert ranges[0][0] == 0 and ranges[-1][1] == n
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
        assert all(hi > lo for lo, hi in ranges[1:])
        parts = ranges[1:] if share == 0.0 or ranges[0][1] == 0 else ranges
        slowest = max(costs[lo:hi].sum() for lo, hi in parts)
        assert slowest == pytest.approx(best(costs, len(parts)), rel=1e-9)


# ---- the rule ----------------------------------------------------------------------------


def test_light_environments_stay_with_the_caller():
    config = choose([0.5e-6] * 8, 16)
    assert config.workers == 0
    assert "500" in config.reason or "0.5 us per environment" in config.reason
    assert "hand-over" in config.reason


def test_heavy_ones_use_every_cpu_and_no_more():
    assert choose([1e-3] * 8, 2).workers == 1
    assert choose([1e-3] * 8, 4).workers == 3
    assert choose([1e-3] * 8, 64).workers == 7
    assert choose([1e-3] * 3, 2).workers == 1
    assert "2 usable CPUs" in choose([1e-3] * 8, 2).reason


def test_alone():
    assert choose([1.0], 8).workers == 0
    assert "a single environment" in choose([1.0], 8).reason
    assert choose([1.0] * 8, 1).workers == 0
    assert "1 CPU" in choose([1.0] * 8, 1).reason


def test_one_that_outweighs_the_rest():
    """Sharing pays only as far as the heaviest environment lets it."""
    assert choose([1e-3, 1e-6, 1e-6, 1e-6], 4).workers == 0
    assert choose([1e-3, 5e-4, 5e-4, 1e-6], 4).workers >= 1


def test_isolation():
    config = choose([1.0] * 8, 2, isolate=True, why="timeout=3")
    assert config.workers == 2 and config.caller_share == 0.0
    assert config.reason.startswith("timeout=3 keeps every environment in a worker")
    assert choose([1.0], 8, isolate=True).workers == 1
    assert choose([1.0] * 8, 1, isolate=True).workers == 1


def test_the_threshold_is_where_sharing_begins_to_pay():
    assert choose([HANDOVER / 8] * 8, 2).workers == 0
    assert choose([HANDOVER] * 8, 2).workers == 1
