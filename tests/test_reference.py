"""The plain-Python form against what the contract of a step says, worked out by hand."""

import dataclasses
import math

import numpy as np
import pytest

import seer
from seer.cells import Cells
from seer.plain import draw, world_key
from seer.totals import reduce_rows

TICK = 1e-9


def run(model, steps=1, worlds=1, seed=0):
    engine = seer.Engine(model, worlds, compiled=False)
    engine.reset(seed=seed)
    for _ in range(steps):
        engine.step()
    return engine


class Ordered(seer.EventModel):
    """Entity 0 notes who reached it, in the order of arrival."""

    groups = {"node": 4}
    step = 100e-9
    lookahead = 10e-9
    log = seer.column("i8", 16)
    n = seer.column("i8")
    note = seer.event({"mark": "i8"})

    @seer.sweep(at=0.0)
    def send(ctx, s, i):
        if i != 0 and ctx.step == 0:
            ctx.send_ticks("note", 0, 20, 10 * i + 1)
            ctx.send_ticks("note", 0, 20, 10 * i + 2)
            ctx.send_ticks("note", 0, 15, 10 * i + 3)
        if i == 0 and ctx.step == 0:
            ctx.send_ticks("note", 0, 0, 7)

    @seer.on("note")
    def arrive(ctx, s, i, e):
        s.log[i, s.n[i]] = e.mark
        s.n[i] += 1
        if e.mark == 7:
            ctx.send_ticks("note", 0, 0, 8)
            ctx.send_ticks("note", 0, 20, 9)


def test_events_of_one_entity_come_by_time_round_source_sequence():
    engine = run(Ordered)
    log = engine.columns["log"][0, 0].tolist()
    # 7 from the sweep, then 8 in the next round; at 15 and 20 by source, then by sequence.
    assert log[:12] == [7, 8, 13, 23, 33, 9, 11, 12, 21, 22, 31, 32]
    assert engine.counters()["handled"] == 12


class Instants(seer.EventModel):
    """With lookahead 0 an instant is handled round by round."""

    groups = {"node": 3}
    step = 10e-9
    lookahead = 0.0
    max_rounds = 5
    seen_round = seer.column("i8", 8)
    n = seer.column("i8")
    ball = seer.event({"left": "i8"})

    @seer.sweep(at=0.0)
    def serve(ctx, s, i):
        if i == 2:
            ctx.send_ticks("ball", 0, 0, s.p.length)

    length = seer.param(4)

    @seer.on("ball")
    def play(ctx, s, i, e):
        s.seen_round[i, s.n[i]] = e.round
        s.n[i] += 1
        if e.left > 0:
            ctx.send_ticks("ball", (i + 1) % 3, 0, e.left - 1)


def test_rounds_at_one_instant_count_from_the_sender():
    engine = run(Instants(length=4))
    # Served in round 1 by a sweep (round 0); then 0 -> 1 -> 2 -> 0 -> 1.
    assert engine.columns["seen_round"][0, :, :2].tolist() == [[1, 4], [2, 5], [3, 0]]


def test_rounds_beyond_the_bound_are_an_error_that_names_the_entities():
    with pytest.raises(seer.errors.RoundsError) as caught:
        run(Instants(length=5))
    error = caught.value
    assert (error.entity, error.target, error.round, error.capacity) == (1, 2, 5, 5)
    for part in ("node 1", "node 2", "'ball'", "max_rounds=5"):
        assert part in str(error)


class Sweeps(seer.EventModel):
    """What a sweep sees and what it doesn't."""

    groups = {"node": 2}
    step = 100e-9
    lookahead = 10e-9
    value = seer.column("i8", published=True)
    other = seer.column("i8", 4)
    events = seer.column("i8", 4)
    n = seer.column("i8")
    bump = seer.event()

    @seer.reset
    def begin(ctx, s, i):
        for ticks in (0, 49, 50, 99, 100):
            ctx.send_ticks("bump", i, ticks)

    @seer.sweep(at=0.0)
    def first(ctx, s, i):
        s.value[i] = 10 + i
        s.other[i, 0] = s.seen.value[1 - i]
        s.events[i, 0] = s.n[i]

    @seer.sweep(at=0.0)
    def second(ctx, s, i):
        s.other[i, 1] = s.seen.value[1 - i]

    @seer.sweep(at=50e-9)
    def middle(ctx, s, i):
        s.events[i, 1] = s.n[i]
        s.other[i, 2] = s.seen.value[1 - i]

    @seer.sweep(at="end")
    def last(ctx, s, i):
        s.events[i, 2] = s.n[i]

    @seer.on("bump")
    def bumped(ctx, s, i, e):
        s.n[i] += 1
        s.value[i] = 100 + s.n[i]
        if e.time == 49:
            s.other[i, 3] = s.seen.value[1 - i]


def test_a_sweep_sees_every_event_before_it_and_none_at_it():
    engine = run(Sweeps)
    # At 0: none; at 50: those of 0 and 49; at the end: also 50 and 99, but not 100.
    assert engine.columns["events"][0].tolist() == [[0, 2, 4, 0]] * 2
    engine.step()
    assert engine.columns["events"][0, :, 1].tolist() == [5, 5]


def test_values_are_published_around_sweeps_only():
    engine = run(Sweeps)
    # Before the first sweep: the initial 0. After it: 10 + i. An event at 49 doesn't see what
    # events have changed; the sweep at 50 does.
    assert engine.columns["other"][0].tolist() == [[0, 11, 102, 11], [0, 10, 102, 10]]
    assert engine.seen["value"][0].tolist() == engine.columns["value"][0].tolist()


def test_what_the_caller_writes_is_published_before_the_first_sweep():
    engine = run(Sweeps)
    engine.columns["value"][0] = [-1, -2]
    engine.step()
    assert engine.columns["other"][0, :, 0].tolist() == [-2, -1]


class Mortal(seer.EventModel):
    """Dying, and events for the dead."""

    groups = {"node": 3}
    step = 100e-9
    lookahead = 10e-9
    n = seer.column("i8")
    woke = seer.column("i8")
    swept = seer.column("i8", 3)
    kill = seer.event()
    knock = seer.event(even_if_dead=True)

    @seer.reset
    def plan(ctx, s, i):
        if i == 1:
            ctx.send_ticks("kill", i, 10)
            ctx.send_ticks("kill", i, 20)
            ctx.send_ticks("knock", i, 30)

    @seer.sweep(at=50e-9)
    def living(ctx, s, i):
        s.swept[i, 0] += 1

    @seer.sweep(at=50e-9, include="acted")
    def acting(ctx, s, i):
        s.swept[i, 1] += 1

    @seer.sweep(at=50e-9, include="all")
    def everyone(ctx, s, i):
        s.swept[i, 2] += 1

    @seer.on("kill")
    def die(ctx, s, i, e):
        s.alive[i] = 0
        s.n[i] += 1

    @seer.on("knock")
    def heard(ctx, s, i, e):
        s.woke[i] += 1


def test_events_for_the_dead_are_counted_and_not_handled():
    engine = run(Mortal)
    assert engine.columns["n"][0].tolist() == [0, 1, 0]
    assert engine.columns["woke"][0].tolist() == [0, 1, 0]
    assert engine.alive[0].tolist() == [True, False, True]
    counters = engine.counters()
    assert (counters["handled"], counters["unhandled"]) == (2, 1)


def test_sweeps_include_the_living_those_who_acted_or_all():
    engine = run(Mortal)
    assert engine.columns["swept"][0].tolist() == [[1, 1, 1], [0, 1, 1], [1, 1, 1]]
    engine.step()
    assert engine.columns["swept"][0].tolist() == [[2, 2, 2], [0, 1, 2], [2, 2, 2]]
    engine.reset()
    assert engine.alive.all()


class Draws(seer.EventModel):
    groups = {"node": 3}
    uniform = seer.column("f8", 4)
    normal = seer.column("f8")
    bits = seer.column("u8")
    die = seer.column("i8", 64)

    @seer.reset
    def draw(ctx, s, i):
        for k in range(4):
            s.uniform[i, k] = ctx.uniform()
        s.normal[i] = ctx.normal()
        s.bits[i] = ctx.bits()
        for k in range(64):
            s.die[i, k] = ctx.integers(6)


def test_draws_are_a_function_of_seed_episode_entity_and_number():
    engine = seer.Engine(Draws, worlds=3, compiled=False)
    engine.reset(seed=5)
    key = world_key(6, 0)
    assert engine.columns["uniform"][1, 2, 3] == (draw(key, 2, 3) >> 11) * 2.0**-53
    first, second = draw(key, 2, 4), draw(key, 2, 5)
    expected = math.sqrt(-2 * math.log(((first >> 11) + 1) * 2.0**-53))
    expected *= math.cos(2 * math.pi * (second >> 11) * 2.0**-53)
    assert engine.columns["normal"][1, 2] == expected
    assert engine.columns["bits"][1, 2] == draw(key, 2, 6)
    assert engine.columns["die"].min() == 0 and engine.columns["die"].max() == 5
    assert engine.columns["draws"][1].tolist() == [71, 71, 71]
    alone = seer.Engine(Draws, compiled=False)
    alone.reset(seed=6)
    assert (alone.columns["uniform"][0] == engine.columns["uniform"][1]).all()
    alone.reset()
    engine.reset()
    assert (alone.columns["uniform"][0] == engine.columns["uniform"][1]).all()
    assert (alone.columns["bits"][0] != [draw(key, i, 6) for i in range(3)]).all()


def test_the_mixer_is_splitmix64():
    # The first outputs of splitmix64 seeded with 0 are its finalizer over multiples of the gamma.
    from seer.plain import mix

    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert mix(2 * 0x9E3779B97F4A7C15 % 2**64) == 0x6E789E6AA1B965F4


class _Grid:
    def __init__(self, count, components, cell, low=(0.0, 0.0), high=(10.0, 10.0)):
        self.group = seer.model.Group("node", 3, count)
        self.components, self.cell, self.low, self.high = components, cell, low, high


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("cell", [0.01, 1.0, 3.3, 100.0])
def test_near_finds_who_is_within_the_radius_by_cells_and_ids(components, cell):
    rng = np.random.default_rng(7)
    rows = rng.uniform(-3, 13, (40, components))
    rows[5, 0] = np.nan
    alive = np.ones(50, np.uint8)
    alive[9] = 0
    cells = Cells(_Grid(40, components, cell), rows, alive)
    for radius in (0.0, 0.5, 2.0, 30.0):
        for point in rng.uniform(-5, 15, (20, components)).tolist() + [rows[1].tolist()]:
            found = cells.near(point, radius)
            expected = {
                3 + k
                for k in range(40)
                if 3 + k != 9 and ((rows[k] - point) ** 2).sum() <= radius * radius
            }
            assert set(found) == expected and len(found) == len(expected)
            places = [
                (cells._place(rows[i - 3, 1], 1), cells._place(rows[i - 3, 0], 0), i) for i in found
            ]
            assert places == sorted(places)
    assert cells._size[0] * cells._size[1] <= 160
    assert cells.near([5.0] * components, -1.0) == cells.near([5.0] * components, math.nan) == []


@pytest.mark.parametrize("alive_only", [False, True])
def test_totals_are_sums_of_blocks_in_order(alive_only):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2, 1000, 2)) * 10.0 ** rng.integers(-8, 8, (2, 1000, 2))
    rows[0, 17, 1] = np.nan if alive_only else 1.0
    alive = rng.integers(0, 2, (2, 1003)).astype(np.uint8)
    alive[0, 20] = 0
    alive[1, :] = 0
    column = seer.model.Column(
        "x", np.dtype("f8"), (2,), seer.model.Group("g", 3, 1000), True, np.zeros(2)
    )

    def plain(world):
        living = [k for k in range(1000) if not alive_only or alive[world, 3 + k]]
        total = 0.0
        for block in range(4):
            part = 0.0
            for k in living:
                if k // 256 == block:
                    part += float(rows[world, k, 1])
            total += part
        best = min(living, key=lambda k: rows[world, k, 1], default=None)
        return {
            "sum": total,
            "mean": total / len(living) if living else math.nan,
            "min": rows[world, best, 1] if living else math.nan,
            "argmin": 3 + best if living else -1,
        }

    for op in ("sum", "mean", "min", "argmin"):
        total = seer.model.Total("t", op, 0, 1, alive_only)
        got = reduce_rows(total, column, rows, alive)
        expected = [plain(world)[op] for world in (0, 1)]
        assert got.dtype == np.float64 and np.array_equal(got, expected, equal_nan=True)


def test_extremes_skip_what_is_no_number():
    column = seer.model.Column(
        "x", np.dtype("f4"), (), seer.model.Group("g", 0, 4), False, np.zeros(())
    )
    rows, alive = np.array([[np.nan, 2, 1, 1], [np.nan] * 4], "f4"), np.ones((2, 4), np.uint8)
    for op, expected in (("argmin", [2, -1]), ("argmax", [1, -1]), ("max", [2.0, np.nan])):
        got = reduce_rows(seer.model.Total("t", op, 0, 0, False), column, rows, alive)
        assert np.array_equal(got, expected, equal_nan=True)


# ---- what a method may not do -------------------------------------------------------------


def broken(body, **columns):
    """Run a model whose sweep breaks a rule, hidden from the check at declaration."""

    class Rule(seer.EventModel):
        groups = {"node": 3, "rock": 1}
        agents = "node"
        pos = seer.column("f8", 2, published=True)
        own = seer.column("i8", of="node")
        ping = seer.event({"strength": "f8"})
        near = seer.grid("pos", cell=1.0)

        @seer.sweep(at=0.0, over="node")
        def work(ctx, s, i):
            BODY[0](ctx, s, i)
            s.own[i] += 0
            s.pos[i, 0] += 0.0

    BODY[0] = body
    return run(Rule)


BODY = [None]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (lambda ctx, s, i: s.pos[(i + 1) % 3, 0], "another entity's latest value"),
        (lambda ctx, s, i: s.own.__setitem__((i + 1) % 3, 1), "another entity's latest value"),
        (
            lambda ctx, s, i: s.seen.pos.__setitem__((i, 0), 1.0),
            "published values are the engine's",
        ),
        (lambda ctx, s, i: s.seen.pos[9, 0], "expected an id of group 'all', 0 to 3"),
        (lambda ctx, s, i: s.seen.pos[-1, 0], "expected an id"),
        (lambda ctx, s, i: s.pos[i, 2], "a row has shape (2,)"),
        (lambda ctx, s, i: s.pos[i, 0, 0], "a row has shape (2,)"),
        (lambda ctx, s, i: s.pos[0.5], "whole numbers"),
        (lambda ctx, s, i: s.poss, "did you mean s.pos?"),
        (lambda ctx, s, i: s.seen.own, "s.seen.own does not exist"),
        (lambda ctx, s, i: setattr(s, "own", 3), "can't be assigned"),
        (lambda ctx, s, i: ctx.send("pong", 0, 1.0), "expected one of ['ping']"),
        (lambda ctx, s, i: ctx.send("ping", 0, 1.0), "expected 1 fields (strength), got 0"),
        (lambda ctx, s, i: ctx.near("near", 0.0, 1.0), "expected 2 coordinates and a radius"),
        (lambda ctx, s, i: ctx.found(0), "the last near found 0"),
    ],
)
def test_a_broken_rule_is_an_error_that_names_the_method_and_the_rule(body, rule):
    with pytest.raises(seer.errors.ModelError) as caught:
        broken(body)
    assert rule in str(caught.value)
    assert caught.value.method == "work" and f"test_reference.py:{caught.value.line}" in str(
        caught.value
    )


def test_a_write_that_the_declaration_does_not_know_of_is_refused():
    model = Ordered()
    sweeps = (dataclasses.replace(model.spec.sweeps[0], writes=0, method=writer),)
    object.__setattr__(model.spec, "sweeps", sweeps)
    with pytest.raises(
        seer.errors.ModelError, match="was not found to write n when it was declared"
    ):
        run(model)


writer = seer.model.Method(lambda ctx, s, i: s.n.__setitem__(i, 1), "writer", __file__, 1)


def test_rows_that_are_read_can_not_be_written():
    def body(ctx, s, i):
        s.seen.pos[i][0] = 1.0

    with pytest.raises(seer.errors.HandlerError) as caught:
        broken(body)
    assert isinstance(caught.value.__cause__, ValueError)


class Totals(seer.EventModel):
    """Every reduction, over a group that may have nobody."""

    many = seer.param(0, low=0)
    groups = {"ghost": "many", "node": 2}
    cold = seer.column("f8", (2, 2), of="ghost", initial=-0.0)
    got = seer.column("f8", 6, of="node")
    a = seer.total("sum", "cold", 3)
    b = seer.total("mean", "cold", 3)
    c = seer.total("min", "cold", 3)
    d = seer.total("max", "cold", 3)
    e = seer.total("argmin", "cold", 3)
    f = seer.total("argmax", "cold", 3, alive_only=True)

    @seer.sweep(over="node")
    def note(ctx, s, i):
        s.got[i, 0] = s.total.a
        s.got[i, 1] = s.total.b
        s.got[i, 2] = s.total.c
        s.got[i, 3] = s.total.d
        s.got[i, 4] = s.total.e
        s.got[i, 5] = s.total.f


@pytest.mark.parametrize(("many", "expected"), [
    (0, [0.0, np.nan, np.nan, np.nan, -1.0, -1.0]),
    (256, [0.0, 0.0, -0.0, -0.0, 0.0, 0.0]),
    (300, [0.0, 0.0, -0.0, -0.0, 0.0, 0.0]),
])  # fmt: skip
def test_totals_over_nobody_and_over_minus_zero(many, expected):
    for compiled in (True, False):
        with seer.Engine(Totals(many=many), worlds=2, compiled=compiled) as engine:
            engine.reset(seed=1)
            engine.step()
            got = np.array(engine.columns["got"])
            assert np.array_equal(got, np.broadcast_to(expected, (2, 2, 6)), equal_nan=True)
            number = ~np.isnan(expected)
            assert np.array_equal(np.signbit(got[0, 0])[number], np.signbit(expected)[number])
            outside = [engine.totals[name][1] for name in "abcdef"]
            assert np.array_equal(outside, expected, equal_nan=True)
