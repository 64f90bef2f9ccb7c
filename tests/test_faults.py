"""What a model can do wrong while it runs, and what the world can do to an engine."""

import dataclasses

import pytest

import seer
from seer import errors
from seer.types import PoolConfig

POOLS = [
    PoolConfig(1),
    PoolConfig(2, "lanes", 1, share=True),
    PoolConfig(3, "lanes", 4, 0.0, share=True),
    PoolConfig(2, "worlds"),
    PoolConfig(4, "lanes", 2, share=True, shuffle=5),
]


class Faulty(seer.EventModel):
    """Does the wrong thing of its parameter's number, at one entity, in one step."""

    mode = seer.param(0)
    who = seer.param(5)
    when = seer.param(1, doc="in which step")
    delay = seer.param(0.0)
    ahead = seer.param(1e-6)
    groups = {"drone": 8, "mast": 4}
    step = 1e-5
    lookahead = "ahead"
    lane_capacity = 6
    world_capacity = 40
    step_capacity = 60
    max_rounds = 7
    n = seer.column("i8")
    table = seer.column("i8", 4)
    ping = seer.event({"left": "i4"})
    bang = seer.event({"left": "i4"})

    @seer.sweep(at=2e-6)
    def act(ctx, s, i):
        if ctx.step == s.p.when and i == s.p.who:
            if s.p.mode == 1:
                ctx.send("ping", 7, s.p.delay, 0)
            elif s.p.mode == 2:
                ctx.send("ping", i, s.p.delay, 0)
            elif s.p.mode == 3:
                ctx.send("ping", 12, 1.0, 0)
            elif s.p.mode == 4:
                ctx.fail(42)
            elif s.p.mode == 5:
                raise ValueError("not today")
            else:
                ctx.send("bang", i, 1e-6, s.p.mode)
        elif ctx.step == s.p.when and s.p.mode == 20:
            ctx.send("ping", s.p.who, 1e-5, 0)
        elif ctx.step == s.p.when and s.p.mode == 21:
            for k in range(5):
                ctx.send("ping", i, 1e-5 * k, 0)
        elif ctx.step == s.p.when and s.p.mode == 22:
            ctx.send("ping", i, 0.0, 5)
        elif s.p.mode == 23 and ctx.step == s.p.when:
            ctx.send("bang", i, 1e-6, 12)

    @seer.on("ping")
    def pinged(ctx, s, i, e):
        s.n[i] += 1
        if e.left > 0:
            ctx.send("ping", i, 0.0, e.left - 1)

    @seer.on("bang")
    def banged(ctx, s, i, e):
        if e.left == 11:
            ctx.send("ping", 7, s.p.delay, 0)
        elif e.left == 12:
            ctx.fail(7)
        elif e.left == 13:
            raise ValueError("not today")
        elif e.left == 14:
            ctx.send("bang", i, 0.0, 14)
        elif e.left == 15:
            ctx.send("ping", -3, 1.0, 0)


CASES = {
    # name: parameters, class, parts of the text, attributes
    "too_soon_in_a_sweep": (
        {"mode": 1, "delay": 4e-7}, errors.CausalityError,
        ["sweep 'act' of drone 5 (entity 5) at 1.2e-05 s", "'ping' to drone 7 (entity 7)",
         "for 1.24e-05 s", "at least 1e-06 s (1000 ticks)", "got 400 ticks"],
        {"entity": 5, "source": 5, "target": 7, "kind": "ping", "sweep": "act", "limit": 1000},
    ),
    "too_soon_in_a_handler": (
        {"mode": 11, "delay": 9.99e-7}, errors.CausalityError,
        ["handler of event 'bang' of drone 5 (entity 5) at 1.3e-05 s", "'ping' to drone 7",
         "got 999 ticks", "test_faults.py:"],
        {"entity": 5, "target": 7, "kind": "ping", "sweep": None},
    ),
    "into_the_past": (
        {"mode": 2, "delay": -1e-9}, errors.CausalityError,
        ["'ping' to drone 5", "in the past", "at least 0, got -1 ticks"],
        {"entity": 5, "target": 5},
    ),
    "into_the_past_of_another": (
        {"mode": 1, "delay": -1.0}, errors.CausalityError, ["in the past"], {"target": 7},
    ),
    "never": (
        {"mode": 2, "delay": float("inf")}, errors.DelayError,
        ["a delay of inf s", "expected a finite delay"], {"value": float("inf")},
    ),
    "too_far": (
        {"mode": 2, "delay": 1e10}, errors.DelayError, ["expected a finite delay that ends before"],
        {"kind": "ping"},
    ),
    "to_nobody": (
        {"mode": 3}, errors.TargetError, ["does not exist: expected 0 to 11, got 12"],
        {"target": 12},
    ),
    "to_a_negative_id": (
        {"mode": 15}, errors.TargetError, ["expected 0 to 11, got a number outside"],
        {"target": None},
    ),
    "a_sweep_fails": (
        {"mode": 4}, errors.HandlerError,
        ["sweep 'act' of drone 5", "ctx.fail(42)", "test_faults.py:"],
        {"user_code": 42, "sweep": "act", "kind": None},
    ),
    "a_sweep_raises": (
        {"mode": 5}, errors.HandlerError, ["sweep 'act' of drone 5", "raised an exception"],
        {"sweep": "act"},
    ),
    "a_handler_fails": (
        {"mode": 12}, errors.HandlerError,
        ["the handler of event 'bang' of drone 5", "ctx.fail(7)", "test_faults.py:"],
        {"user_code": 7, "kind": "bang", "entity": 5},
    ),
    "a_handler_raises": (
        {"mode": 13, "who": 9}, errors.HandlerError,
        ["the handler of event 'bang' of mast 1 (entity 9)", "raised an exception"],
        {"kind": "bang", "entity": 9, "source": 9},
    ),
    "rounds_without_end": (
        {"mode": 14}, errors.RoundsError,
        ["drone 5 (entity 5) at 1.3e-05 s", "in round 7", "max_rounds=7"],
        {"capacity": 7, "round": 7, "entity": 5, "target": 5},
    ),
    "a_lane_overflows": (
        {"mode": 20}, errors.LaneOverflowError,
        ["pending for drone 5 (entity 5)", "lane_capacity=6", "'ping' from drone 6 (entity 6)"],
        {"entity": 5, "capacity": 6, "source": 6, "kind": "ping", "event_time": 2.2e-5},
    ),
    "a_world_overflows": (
        {"mode": 21}, errors.WorldOverflowError, ["world_capacity=40"], {"capacity": 40},
    ),
    "a_step_overflows": (
        {"mode": 22}, errors.StepOverflowError, ["step_capacity=60"], {"capacity": 60},
    ),
    "many_fail": (
        {"mode": 23}, errors.HandlerError, ["of drone 0 (entity 0)", "21 more in the same step"],
        {"entity": 0, "others": 21},
    ),
}  # fmt: skip


def outcome(engine):
    """The exception that stepping ends with."""
    engine.reset(seed=3)
    engine.step()
    with pytest.raises(errors.FaultError) as caught:
        engine.step()
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_one_exception_the_same_on_every_pool(name):
    parameters, kind, parts, attributes = CASES[name]
    model = Faulty(**parameters)
    with seer.Engine(model, 2, compiled=False) as plain:
        expected = outcome(plain)
        fault = plain.fault
    assert type(expected) is kind
    assert str(expected).startswith("Faulty, world 0: ")
    for part in parts:
        assert part in str(expected)
    for key, value in attributes.items():
        got = getattr(expected, key)
        assert got == (pytest.approx(value) if isinstance(value, float) else value), key
    with seer.Engine(model, 2, PoolConfig(1)) as native:
        for pool in POOLS:
            native.set_pool(pool)
            error = outcome(native)
            assert type(error) is kind, pool
            # How many more there were in the world after this one is the only liberty.
            assert str(error) == str(expected), pool
            assert native.fault == fault, pool


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "plain"])
@pytest.mark.parametrize("name", ["a_handler_fails", "a_lane_overflows", "rounds_without_end"])
def test_after_a_fault_only_reset_and_close_are_legal_and_both_work(name, compiled):
    with seer.Engine(Faulty(**CASES[name][0]), 3, compiled=compiled) as engine:
        outcome(engine)
        for call in (engine.step, engine.state_dict):
            with pytest.raises(errors.StateError, match="only reset and close are legal now"):
                call()
        with pytest.raises(errors.StateError, match="all worlds must be reset"):
            engine.reset(mask=[True, True, False])
        assert "failed, reset it" in repr(engine)
        assert engine.fault is not None
        error = outcome(engine)
        assert type(error) is CASES[name][1]
        engine.reset(seed=1)
        assert engine.fault is None
        engine.step()


def test_a_fault_in_one_world_lets_the_others_finish():
    class OneWorld(seer.EventModel):
        groups = {"node": 4}
        n = seer.column("i8")
        bad = seer.column("u1")

        @seer.sweep(at=0.05)
        def work(ctx, s, i):
            if s.bad[i] != 0:
                ctx.fail(1)
            s.n[i] += 1

    for pool in POOLS:
        with seer.Engine(OneWorld, 4, pool) as engine:
            engine.reset(seed=1)
            engine.columns["bad"][2, 3] = 1
            engine.columns["bad"][1, 2] = 1
            with pytest.raises(errors.HandlerError) as caught:
                engine.step()
            assert (caught.value.world, caught.value.entity, caught.value.others) == (1, 2, 1)
            assert (engine.columns["n"] == 1).all(), pool


def test_plain_python_shows_what_was_raised():
    with seer.Engine(Faulty(mode=13), compiled=False) as engine:
        error = outcome(engine)
    assert isinstance(error.__cause__, ValueError)
    assert str(error.__cause__) == "not today"


def test_a_failing_reset_sweep_is_reported():
    class BadStart(seer.EventModel):
        groups = {"node": 3}

        @seer.reset
        def begin(ctx, s, i):
            if i == 1:
                ctx.fail(3)

    for compiled in (True, False):
        with seer.Engine(BadStart, 2, compiled=compiled) as engine:
            with pytest.raises(
                errors.HandlerError, match=r"sweep 'begin' of node 1 .*ctx.fail\(3\)"
            ):
                engine.reset(seed=1)
            with pytest.raises(errors.StateError):
                engine.step()


class Full(seer.EventModel):
    amount = seer.param(1)
    groups = {"node": 2}
    step = 1e-6
    lookahead = 1e-7
    lane_capacity = 5
    world_capacity = 10
    step_capacity = 10
    got = seer.column("i8")
    ping = seer.event()

    @seer.sweep(at=0.0, over="node")
    def fill(ctx, s, i):
        if ctx.step == 0:
            for _ in range(s.p.amount):
                ctx.send("ping", i, 2e-6)

    @seer.on("ping")
    def take(ctx, s, i, e):
        s.got[i] += 1


@pytest.mark.parametrize("slack", [0, 1])
@pytest.mark.parametrize("pool", [*POOLS, None], ids=str)
def test_capacities_hold_exactly(slack, pool):
    """As many as the capacity are legal; one more is not, and the lane is named, not the world."""
    kwargs = {"compiled": False} if pool is None else {"pool": pool}
    with seer.Engine(Full(amount=5 + slack), **kwargs) as engine:
        engine.reset(seed=1)
        if slack:
            with pytest.raises(errors.LaneOverflowError) as caught:
                engine.step()
            assert (caught.value.entity, caught.value.others) == (0, 1)
        else:
            for _ in range(3):
                engine.step()
            assert engine.columns["got"].tolist() == [[5, 5]]


def test_what_a_handler_sends_itself_within_a_window_may_pass_the_capacity():
    class Burst(seer.EventModel):
        groups = {"node": 2}
        step = 1e-6
        lookahead = 1e-7
        lane_capacity = 2
        got = seer.column("i8")
        ping = seer.event({"left": "i4"})

        @seer.sweep(at=0.0)
        def start(ctx, s, i):
            ctx.send("ping", i, 1e-9, 6)

        @seer.on("ping")
        def take(ctx, s, i, e):
            s.got[i] += 1
            for _ in range(e.left):
                ctx.send("ping", i, 2e-9, 0)

    for compiled in (True, False):
        with seer.Engine(Burst, pool=PoolConfig(1), compiled=compiled) as engine:
            engine.reset(seed=1)
            engine.step()
            assert engine.columns["got"].tolist() == [[7, 7]]


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "plain"])
def test_sequence_numbers_that_run_out_are_an_error(compiled):
    with seer.Engine(Full(amount=3), compiled=compiled) as engine:
        engine.reset(seed=1)
        state = engine.state_dict()
        state["steps"][...] = 0
        state["sequences"][0, 1] = 2**32 - 3
        engine.load_state_dict(state)
        with pytest.raises(errors.SequenceOverflowError, match=r"node 1 .*2\*\*32 - 1 events"):
            engine.step()


def test_fault_records_are_plain_data():
    with seer.Engine(Faulty(mode=12), compiled=False) as engine:
        outcome(engine)
        record = dataclasses.asdict(engine.fault)
    assert record["user_code"] == 7
    assert all(isinstance(value, (int, float)) for value in record.values())


def test_errors_are_also_the_builtins_that_fit():
    assert issubclass(errors.CausalityError, ValueError)
    assert issubclass(errors.TargetError, IndexError)
    assert issubclass(errors.OutOfMemoryError, MemoryError)
