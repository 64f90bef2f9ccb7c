"""The same bits on every pool, and the report of where they are not."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import Traffic, traffic_parameters

import seer
from seer.snapshot import digest
from seer.types import PoolConfig
from seer.verify import _compare, _first_difference, _run, pools

relaxed = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=40
)


@relaxed
@given(traffic_parameters(), st.integers(0, 2**40))
def test_random_models_equal_the_reference_event_by_event(parameters, seed):
    model = Traffic(**parameters)
    steps = 1 + 800 // (model.spec.entities * (1 + model.params["life"] ** 2))
    with (
        seer.Engine(model, 2, compiled=False) as plain,
        seer.Engine(model, 2, PoolConfig(1)) as native,
    ):
        found = _first_difference(
            _run(plain, steps, seed), _run(native, steps, seed), "native", model.spec, 0.0
        )
        assert found is None, str(found)
        a, b = plain.counters(), native.counters()
        for name in ("handled", "unhandled", "sent", "sweeps", "kinds"):
            assert a[name] == b[name], name


@relaxed
@given(
    traffic_parameters(),
    st.integers(0, 2**40),
    st.lists(st.sampled_from(pools()), min_size=4, max_size=4, unique=True),
)
def test_random_models_are_equal_on_random_pools(parameters, seed, configs):
    seer.verify(
        Traffic(**parameters),
        steps=5,
        worlds=3,
        seed=seed,
        configs=configs,
        plain=False,
        raises=True,
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"nodes": 70, "ahead": 1000},
        {"nodes": 40, "ahead": 0, "now": 0.5, "quantum": 1000},
        {"nodes": 64, "ahead": 100, "death": 0.2, "wide": 1.0},
        {"nodes": 1, "sinks": 0, "here": 1.0},
        {"nodes": 150, "sinks": 50, "ahead": 10_000, "life": 2},
    ],
    ids=["plain", "instants", "mortal", "alone", "large"],
)
def test_every_pool_gives_the_same_bits(parameters):
    report = seer.verify(Traffic(**parameters), steps=6, worlds=3, seed=9)
    assert report, str(report)
    assert len(report.pools) > 40
    assert report.events > 0
    assert "equal to the bit" in str(report)


class Leaky(seer.EventModel):
    """Breaks the contract on purpose: what it sees depends on who else is running."""

    groups = {"node": 64}
    agents = "node"
    step = 1e-6
    lookahead = 1e-7
    own = seer.column("f8", published=True)

    @seer.sweep(at=0.0)
    def work(ctx, s, i):
        s.own[i] = ctx.uniform()


def test_a_difference_is_found_with_entity_column_and_time():
    with (
        seer.Engine(Leaky, 2, PoolConfig(1)) as base,
        seer.Engine(Leaky, 2, PoolConfig(2)) as other,
    ):
        expected = list(_run(base, 3, 1))
        got = list(_run(other, 3, 1))
        got[2]["columns"]["own"][1, 17] += 1e-12
        got[2]["columns"]["own"][1, 40] += 1.0
        found = _first_difference(expected, got, "2 threads", base.spec, 0.0)
    assert (found.step, found.world, found.entity, found.what) == (2, 1, 17, "s.own")
    assert found.time == pytest.approx(2e-6)
    for part in ("2 threads", "after step 2", "world 1", "entity 17", "s.own", "expected"):
        assert part in str(found)


def test_a_difference_of_pending_events_is_found():
    with seer.Engine(Traffic(nodes=5), 1, PoolConfig(1)) as engine:
        expected, got = list(_run(engine, 1, 1)), list(_run(engine, 1, 1))
        assert _compare(expected[1], got[1], engine.spec, 0.0) is None
        got[1]["events"]["sequence"][3] += 1
        assert _compare(expected[1], got[1], engine.spec, 0.0)[1] == "a pending event"
        got[1]["lengths"][0, 2] += 1
        assert _compare(expected[1], got[1], engine.spec, 0.0)[1:3] == (
            "the number of its pending events",
            2,
        )


def test_an_unequal_report_is_false_prints_and_raises():
    report = seer.verify(Leaky, steps=2, worlds=1, configs=[PoolConfig(2, "lanes")], plain=True)
    assert report and report.check() is report
    difference = seer.verify.__globals__["Difference"](
        "2 threads", 1, 1e-6, 0, "s.own", 4, "0.5", "0.25"
    )
    bad = dataclasses.replace(report, differences=(difference,))
    assert not bad
    assert "NOT EQUAL" in str(bad)
    with pytest.raises(seer.errors.VerifyError, match="entity 4"):
        bad.check()


class Stray(seer.EventModel):
    """Writes out of its row, at a place that is not known before it runs."""

    groups = {"node": 8}
    row = seer.column("f8", 4)

    @seer.sweep(at=0.0)
    def work(ctx, s, i):
        s.row[i, 1000000 * i] = 1.0


class Hollow(seer.EventModel):
    """A group of nobody, with columns of its own."""

    groups = {"node": 2, "ghost": 0}
    own = seer.column("f8", 2, published=True)
    cold = seer.column("f8", 3, published=True, of="ghost")

    @seer.sweep(at=0.0)
    def work(ctx, s, i):
        s.own[i, 1] = ctx.uniform()


def test_a_group_may_be_empty():
    assert seer.verify(Hollow, steps=2, configs=[PoolConfig(2, "lanes")], plain=True)


def test_an_index_out_of_range_is_told_before_compiled_code_follows_it():
    with pytest.raises(seer.errors.ModelError, match=r"s.row\[1, 1000000\].*shape \(4,\)"):
        seer.verify(Stray)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"worlds": 0}, {"steps": 1.5}, {"worlds": True}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(seer.errors.ConfigError, match="expected a whole number above 0"):
        seer.verify(Leaky, **wrong)


def test_a_state_loads_under_any_other_pool_and_goes_on_to_the_bit():
    model = Traffic(nodes=30, death=0.05, wide=0.4)
    rng = np.random.default_rng(2)
    actions = rng.uniform(-1, 1, (12, 3, 30, 2)).astype("f4")
    with seer.Engine(model, 3, PoolConfig(1)) as first:
        first.reset(seed=4)
        for k in range(6):
            first.step(actions[k])
        state = first.state_dict()
        for k in range(6, 12):
            first.step(actions[k])
        expected = digest(first.state_dict())
    for form in [*pools((1, 2, 3)), None]:
        kwargs = {"compiled": False} if form is None else {"pool": form}
        with seer.Engine(model, 3, **kwargs) as other:
            other.load_state_dict(state)
            assert digest(other.state_dict()) == digest(state)
            for k in range(6, 12):
                other.step(actions[k])
            assert digest(other.state_dict()) == expected, form
