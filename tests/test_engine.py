"""The engine's face: arrays, actions, seeds, states, and what is legal when."""

import dataclasses
import gc
import pickle
import time
import weakref

import numpy as np
import pytest

import seer
from seer.errors import ActionError, ClosedError, ConfigError, SnapshotError, StateError
from seer.snapshot import digest
from seer.types import PoolConfig


class Walkers(seer.EventModel):
    """Agents that move as told, beside rocks that do nothing."""

    walkers = seer.param(3, low=1)
    rocks = seer.param(2, low=0)
    groups = {"rock": "rocks", "walker": "walkers"}
    agents = "walker"
    step = 0.1
    lookahead = 0.01
    pos = seer.column("f8", 2, published=True)
    heard = seer.column("i4", of="walker")
    push = seer.action("f4", 2)
    sight = seer.observation("f4", 3)
    gain = seer.reward()
    done = seer.terminated()
    shout = seer.event({"loud": "f4"})
    mean_x = seer.total("mean", "pos")
    heard_by_all = seer.total("sum", "heard")

    @seer.reset(over="walker")
    def place(ctx, s, i):
        s.pos[i, 0] = ctx.uniform()
        s.pos[i, 1] = ctx.uniform()

    @seer.sweep(at=0.0, over="walker")
    def move(ctx, s, i):
        s.pos[i, 0] += s.push[i, 0]
        s.pos[i, 1] += s.push[i, 1]
        if s.push[i, 0] > 0.5:
            ctx.send("shout", s.p.rocks, 0.01, 1.0)

    @seer.on("shout")
    def hear(ctx, s, i, e):
        s.heard[i] += 1

    @seer.sweep(at="end", over="walker", on_reset=True)
    def look(ctx, s, i):
        s.sight[i, 0] = s.pos[i, 0]
        s.sight[i, 1] = s.pos[i, 1]
        s.sight[i, 2] = ctx.step
        s.gain[i] = -s.total.mean_x
        s.done[i] = 1 if s.pos[i, 0] > 10.0 else 0

    @staticmethod
    def action_space(p):
        from gymnasium.spaces import Box

        return Box(-1.0, 1.0, (2,), np.float32)


class Choosers(seer.EventModel):
    """Agents with a discrete action."""

    groups = {"agent": 2}
    agents = "agent"
    choice = seer.action("i4")
    total_choice = seer.column("i8")

    @seer.sweep(at=0.0)
    def use(ctx, s, i):
        s.total_choice[i] += s.choice[i]

    @staticmethod
    def action_space(p):
        from gymnasium.spaces import Discrete

        return Discrete(3, start=1)


@pytest.fixture(params=[True, False], ids=["native", "plain"])
def compiled(request):
    return request.param


@pytest.fixture
def make(compiled):
    made = []

    def one(model=Walkers, worlds=1, pool="auto", **more):
        engine = seer.Engine(model, worlds, pool, compiled=compiled, **more)
        made.append(engine)
        return engine

    yield one
    for engine in made:
        engine.close()


# ---- arrays --------------------------------------------------------------------------------


def test_views_have_the_shapes_and_dtypes_of_the_declaration(make):
    engine = make(Walkers(walkers=4, rocks=1), worlds=3)
    engine.reset(seed=1)
    shapes = {name: (str(a.dtype), a.shape) for name, a in engine.columns.items()}
    assert shapes == {
        "alive": ("uint8", (3, 5)), "acted": ("uint8", (3, 5)), "draws": ("uint64", (3, 5)),
        "pos": ("float64", (3, 5, 2)), "heard": ("int32", (3, 4)), "push": ("float32", (3, 4, 2)),
        "sight": ("float32", (3, 4, 3)), "gain": ("float64", (3, 4)), "done": ("uint8", (3, 4)),
    }  # fmt: skip
    assert set(engine.seen) == {"alive", "pos"}
    assert engine.alive.shape == engine.terminated.shape == (3, 4)
    assert engine.alive.dtype == engine.terminated.dtype == bool
    assert all(a.ctypes.data % 64 == 0 for a in engine.columns.values())
    assert engine.action is engine.columns["push"] and engine.reward is engine.columns["gain"]
    assert not engine.seen["pos"].flags.writeable


def test_a_step_reads_actions_and_writes_observations_in_place(make):
    engine = make(worlds=2)
    engine.reset(seed=3)
    before = engine.columns["pos"].copy()
    sight = engine.observation
    assert (sight[:, :, :2] == before[:, 2:].astype("f4")).all()
    engine.action[...] = 0.25
    engine.step()
    actions = np.full((2, 3, 2), 0.75, "f4")
    engine.step(actions)
    assert (engine.action == actions).all()
    assert np.allclose(engine.columns["pos"][:, 2:], before[:, 2:] + 1.0)
    assert (sight[:, :, :2] == engine.columns["pos"][:, 2:].astype("f4")).all()
    assert (sight[:, :, 2] == 1).all()
    # All shouts of the second step went to the first walker.
    assert engine.columns["heard"].tolist() == [[3, 0, 0]] * 2
    assert engine.totals["heard_by_all"].tolist() == [3.0, 3.0]
    assert np.allclose(engine.reward, -engine.totals["mean_x"][:, None])
    assert engine.steps(1) == 2
    assert engine.time(1) == pytest.approx(0.2)


def test_a_mask_leaves_the_other_worlds_as_they_are(make):
    engine = make(worlds=3)
    engine.reset(seed=3)
    rest = engine.columns["pos"][[0, 2]].copy()
    actions = np.full((3, 3, 2), 0.5, "f4")
    actions[0] = np.nan  # world 0 takes no part: whatever stands there is not looked at
    engine.step(actions, mask=[False, True, False])
    assert (engine.columns["pos"][[0, 2]] == rest).all()
    assert (engine.action[[0, 2]] == 0).all()
    assert [engine.steps(world) for world in range(3)] == [0, 1, 0]
    engine.reset(mask=np.array([False, True, False]))
    assert engine.episodes.tolist() == [0, 1, 0]
    assert engine.steps(1) == 0


def test_totals_are_what_handlers_see(make):
    engine = make(Walkers(walkers=600), worlds=2)
    engine.reset(seed=8)
    engine.step(np.full((2, 600, 2), 0.125, "f4"))
    assert (engine.totals["mean_x"] == -engine.reward[:, 0]).all()
    assert list(engine.totals) == ["mean_x", "heard_by_all"]
    with pytest.raises(KeyError, match="has no total 'mean'"):
        engine.totals["mean"]


def test_an_unknown_column_or_role_is_an_error_that_helps(make):
    engine = make(Choosers)
    with pytest.raises(KeyError, match="did you mean 'choice'"):
        engine.columns["choise"]
    with pytest.raises(ConfigError, match="declares no observation"):
        engine.observation  # noqa: B018


def test_reprs_tell_what_is_there(make):
    engine = make(worlds=2, pool=PoolConfig(2, "lanes"))
    assert "Walkers(walkers=3, rocks=2): 2 worlds, 2 threads over lanes" in repr(engine)
    assert "not yet reset" in repr(engine)
    engine.reset(seed=1)
    engine.step()
    assert "step 1" in repr(engine)
    assert "pos: float64 (2, 5, 2)" in repr(engine.columns)
    engine.close()
    assert "closed" in repr(engine)


# ---- actions -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("in_place", [False, True])
def test_an_action_that_is_no_number_names_world_and_agent(make, bad, in_place):
    engine = make(worlds=2)
    engine.reset(seed=1)
    actions = np.zeros((2, 3, 2), "f4")
    actions[1, 2, 0] = bad
    if in_place:
        engine.action[...] = actions
    with pytest.raises(ActionError) as caught:
        engine.step(None if in_place else actions)
    assert (caught.value.world, caught.value.agent) == (1, "walker_2")
    assert "walker_2 in world 1: expected finite numbers, got" in str(caught.value)
    engine.step(np.zeros((2, 3, 2), "f4"))  # nothing has happened
    assert engine.steps() == 1


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((2, 3), "f4"), r"expected shape \(2, 3, 2\) .*, got \(2, 3\)"),
        (np.zeros((3, 2), "f4"), r"got \(3, 2\)"),
        (np.zeros((2, 4, 2), "f4"), r"got \(2, 4, 2\)"),
        (np.zeros((2, 2, 2), "f4"), r"got \(2, 2, 2\)"),
        (np.zeros((2, 3, 2), "c8"), "expected dtype float32.*got complex64"),
        (np.full((2, 3, 2), "up"), "expected dtype float32.*got <U2"),
        (np.full((2, 3, 2), None), "expected dtype float32.*got object"),
        ([[[0.0, 0.0]], [[0.0]]], "expected an array of shape"),
        ({"walker_0": [0.0, 0.0]}, r"got \(\)"),
    ],
)
def test_actions_of_the_wrong_form_are_refused(make, actions, words):
    engine = make(worlds=2)
    engine.reset(seed=1)
    with pytest.raises(ActionError, match=words):
        engine.step(actions)


def test_actions_of_other_dtypes_of_their_kind_are_taken(make):
    engine = make()
    engine.reset(seed=1)
    for actions in (np.full((1, 3, 2), 0.5), np.ones((1, 3, 2), int), [[[0.5, 1]] * 3]):
        engine.step(actions)
        assert (engine.action == np.asarray(actions, "f4")).all()
    with pytest.raises(ActionError, match="finite"):
        engine.step(np.full((1, 3, 2), 1e300))  # infinite as float32
    assert engine.clipped == 0


def test_box_actions_outside_are_clipped_and_counted(make):
    engine = make(worlds=2)
    engine.reset(seed=1)
    actions = np.full((2, 3, 2), 0.5, "f4")
    actions[0, 1] = [7.0, -7.0]
    actions[1, 2, 1] = 1.5
    given = actions.copy()
    engine.step(actions)
    assert engine.clipped == 2
    assert engine.action[0, 1].tolist() == [1.0, -1.0]
    assert engine.action[1, 2].tolist() == [0.5, 1.0]
    assert (actions == given).all()
    engine.action[0, 0, 0] = -3.0
    engine.step()
    assert engine.action[0, 0, 0] == -1.0
    assert engine.clipped == 3


def test_strict_actions_raise_instead(make):
    engine = make(strict_actions=True)
    engine.reset(seed=1)
    with pytest.raises(ActionError, match=r"walker_1 in world 0: expected values from -1.0 to 1.0"):
        engine.step([[[0, 0], [2, 0], [0, 0]]])


@pytest.mark.parametrize("value", [0, 4, -1, 2**40])
def test_discrete_actions_out_of_range_are_errors(make, value):
    engine = make(Choosers, worlds=2)
    engine.reset(seed=1)
    with pytest.raises(ActionError, match=r"agent_1 in world 0: expected .*, got"):
        engine.step([[1, value], [2, 3]])
    with pytest.raises(ActionError, match=r"expected dtype int32.*got float64"):
        engine.step([[1.0, 2.0], [2.0, 3.0]])
    engine.step(np.array([[1, 2], [2, 3]]))
    assert engine.columns["total_choice"].tolist() == [[1, 2], [2, 3]]
    engine.action[1, 0] = 0
    with pytest.raises(ActionError, match="world 1"):
        engine.step()


def test_actions_of_the_dead_are_not_looked_at(make):
    engine = make()
    engine.reset(seed=1)
    engine.columns["alive"][0, 3] = 0  # walker 1
    actions = np.zeros((1, 3, 2), "f4")
    actions[0, 1] = [np.nan, 9.0]
    engine.step(actions)
    assert np.isfinite(engine.action).all()
    assert engine.clipped == 0


def test_a_model_without_actions_takes_none(make):
    class Quiet(seer.EventModel):
        groups = {"node": 1}

    engine = make(Quiet)
    engine.reset()
    engine.step()
    with pytest.raises(ActionError, match="declares no action"):
        engine.step(np.zeros(1))


def test_checking_the_actions_of_1000_agents_takes_under_20_us():
    engine = seer.Engine(Walkers(walkers=1000), compiled=False)
    engine.reset(seed=1)
    actions = np.random.default_rng(0).uniform(-1, 1, (1, 1000, 2)).astype("f4")
    check, best = engine._actions, 1.0
    for _ in range(50):
        start = time.perf_counter()
        for _ in range(20):
            check.take(actions, None)
        best = min(best, (time.perf_counter() - start) / 20)
    assert best < 20e-6, f"{best * 1e6:.1f} us"


# ---- seeds ---------------------------------------------------------------------------------


def test_world_i_of_a_seed_is_a_single_world_of_seed_plus_i(make):
    many, one = make(worlds=4), make()
    many.reset(seed=10)
    one.reset(seed=12)
    for _ in range(2):
        assert (many.columns["pos"][2] == one.columns["pos"][0]).all()
        many.reset()
        one.reset()
    assert many.seeds.tolist() == [10, 11, 12, 13]
    assert many.episodes.tolist() == [2] * 4


def test_seeds_may_be_a_list_zero_or_large(make):
    engine = make(worlds=3)
    engine.reset(seed=[5, 0, 2**64 - 1])
    first = engine.columns["pos"].copy()
    engine.reset(seed=np.array([5, 0, 7]))
    assert (engine.columns["pos"][:2] == first[:2]).all()
    assert (engine.columns["pos"][2] != first[2]).any()
    engine.reset(seed=[None, 0, None])
    assert engine.episodes.tolist() == [1, 0, 1]
    zero = make()
    zero.reset(seed=0)
    assert zero.seeds.tolist() == [0]
    assert (zero.columns["pos"][0] == first[1]).all()
    assert len(np.unique(first[:, 2:, 0])) == 9


def test_without_a_seed_the_first_comes_from_the_system(make):
    a, b = make(worlds=2), make(worlds=2)
    a.reset()
    b.reset()
    assert a.seeds[0] != b.seeds[0]
    assert a.seeds[1] == a.seeds[0] + np.uint64(1)
    again = make(worlds=2)
    again.reset(seed=int(a.seeds[0]))
    assert (again.columns["pos"] == a.columns["pos"]).all()
    a.reset()
    assert (again.columns["pos"] != a.columns["pos"]).any()
    assert a.episodes.tolist() == [1, 1]


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", True, [1], [1, -2], [1, 2.5], [1, 2, 3]])
def test_a_seed_that_is_none_is_refused(make, seed):
    engine = make(worlds=2)
    with pytest.raises(ConfigError, match="expected"):
        engine.reset(seed=seed)
    with pytest.raises(ConfigError, match=r"expected 0 to 2\*\*64 - 2"):
        engine.reset(seed=2**64 - 1)


# ---- states --------------------------------------------------------------------------------


class Resting(seer.EventModel):
    """Where it first looks is in the middle of a step: what was published before matters."""

    groups = {"node": 20}
    step = 1e-6
    lookahead = 1e-8
    pos = seer.column("f8", 2, published=True)
    sum_seen = seer.column("f8")
    met = seer.column("i8")
    poke = seer.event()
    near = seer.grid("pos", cell=0.2)
    warmth = seer.total("sum", "sum_seen")

    @seer.reset
    def place(ctx, s, i):
        s.pos[i, 0] = ctx.uniform()
        s.pos[i, 1] = ctx.uniform()
        ctx.send_ticks("poke", i, ctx.integers(100))

    @seer.on("poke")
    def poked(ctx, s, i, e):
        found = ctx.near("near", s.seen.pos[i, 0], s.seen.pos[i, 1], 0.3)
        s.met[i] = s.met[i] * 31 + found
        for k in range(found):
            s.sum_seen[i] += s.seen.pos[ctx.found(k), 0]
        s.sum_seen[i] += 1e-3 * s.total.warmth
        s.pos[i, 0] = ctx.uniform()
        if e.source == i:
            ctx.send_ticks("poke", i, 700 + ctx.integers(300))
            ctx.send_ticks("poke", (i + 1) % 20, 10 + ctx.integers(2000))

    @seer.sweep(at=5e-7)
    def middle(ctx, s, i):
        s.pos[i, 1] = ctx.uniform()


@pytest.mark.parametrize("model", [Walkers, Resting])
def test_a_state_goes_on_to_the_bit(make, model):
    engine, other = make(model, worlds=2), make(model, worlds=2)
    engine.reset(seed=4)
    for _ in range(3):
        engine.step()
    state = pickle.loads(pickle.dumps(engine.state_dict()))
    other.reset(seed=99)
    for _ in range(5):
        other.step()
    other.load_state_dict(state)
    assert digest(other.state_dict()) == digest(state)
    fresh = make(model, worlds=2)
    fresh.load_state_dict(state)
    for _ in range(4):
        for one in (engine, other, fresh):
            one.step()
    assert digest(other.state_dict()) == digest(engine.state_dict()) == digest(fresh.state_dict())
    for one in (engine, other):
        one.reset()
        one.step()
    assert digest(other.state_dict()) == digest(engine.state_dict())


def test_a_reset_depends_on_nothing_but_the_seed(make):
    engine, fresh = make(Resting, worlds=2), make(Resting, worlds=2)
    engine.reset(seed=4)
    engine.columns["pos"][...] = 7.0
    engine.step()
    engine.reset(seed=4)
    fresh.reset(seed=4)
    assert digest(engine.state_dict()) == digest(fresh.state_dict())
    for one in (engine, fresh):
        one.step()
    assert digest(engine.state_dict()) == digest(fresh.state_dict())


def test_both_forms_save_the_same_bytes():
    states = []
    for compiled in (True, False):
        with seer.Engine(Resting, 2, compiled=compiled) as engine:
            engine.reset(seed=6)
            engine.step()
            engine.step()
            states.append(engine.state_dict())
    assert pickle.dumps(states[0]) == pickle.dumps(states[1])


def test_another_models_state_is_refused_and_changes_nothing(make):
    engine, other = make(Walkers(walkers=3)), make(Walkers(walkers=4))
    engine.reset(seed=1)
    other.reset(seed=1)
    choosers = make(Choosers)
    choosers.reset(seed=1)
    before = digest(engine.state_dict())
    good = engine.state_dict()
    for state, words in (
        (other.state_dict(), "of this very Walkers"),
        (choosers.state_dict(), "expected a state of model Walkers, got Choosers"),
        ({**good, "format": 0}, "expected a state of format 1, got 0"),
        ({**good, "worlds": 2}, "worlds = 1, got 2"),
        ({key: value for key, value in good.items() if key != "events"}, "events"),
        ({**good, "columns": {}}, "columns named"),
        ({**good, "steps": good["steps"].astype("i4")}, "steps of shape"),
        ({**good, "columns": {**good["columns"], "pos": np.zeros((1, 4, 2))}}, "'pos'"),
        ([], "expected a dict of state_dict"),
    ):
        with pytest.raises(SnapshotError, match=words):
            engine.load_state_dict(state)
    assert digest(engine.state_dict()) == before
    engine.step()


def test_damaged_events_are_refused(make):
    engine = make(Resting)
    engine.reset(seed=1)
    engine.step()
    good = engine.state_dict()

    def damaged(**fields):
        state = {**good, "events": good["events"].copy()}
        for name, value in fields.items():
            state["events"][name][1] = value
        return state

    for state, words in (
        (damaged(target=19), "another entity's lane"),
        (damaged(source=20), "source does not exist"),
        (damaged(kind=1), "kind does not exist"),
        (damaged(time=3), "in the past"),
        (damaged(sequence=10**6), "has not sent that many"),
        ({**good, "events": good["events"][1:], "wide": good["wide"][1:]}, "as lengths say"),
        ({**good, "events": good["events"][::-1].copy()}, "damaged"),
    ):
        with pytest.raises(SnapshotError, match=words):
            engine.load_state_dict(state)
    engine.load_state_dict(good)
    engine.step()


def test_the_pool_may_change_between_steps(make):
    engine, same = make(Resting, worlds=3), make(Resting, worlds=3, pool=PoolConfig(1))
    for one in (engine, same):
        one.reset(seed=2)
    for config in (
        PoolConfig(3, "lanes", 4, share=True),
        PoolConfig(2),
        PoolConfig(1, "lanes", 1),
        "auto",
    ):
        handled = engine.counters()["handled"]
        engine.set_pool(config)
        assert engine.counters()["handled"] == handled
        for one in (engine, same):
            one.step()
    assert digest(engine.state_dict()) == digest(same.state_dict())
    assert engine.counters()["handled"] == same.counters()["handled"] > 0
    with pytest.raises(ConfigError, match='expected "auto" or a PoolConfig, got int'):
        engine.set_pool(4)


# ---- what is legal when --------------------------------------------------------------------


def test_stepping_before_a_reset_says_so(make):
    engine = make(worlds=2)
    for call in (engine.step, engine.state_dict):
        with pytest.raises(StateError, match=r"call reset\(\) first: world 0 was never reset"):
            call()
    engine.reset(seed=1, mask=[True, False])
    with pytest.raises(StateError, match="world 1 was never reset"):
        engine.step()
    engine.step(mask=[True, False])
    engine.reset(mask=[False, True])
    engine.step()


def test_after_close_everything_says_so(make):
    engine = make()
    engine.reset(seed=1)
    position = engine.columns["pos"].copy()
    engine.close()
    engine.close()
    for call in (
        engine.step, engine.reset, engine.state_dict, engine.counters, engine.time, engine.memory,
        lambda: engine.set_pool("auto"), lambda: engine.load_state_dict({}),
    ):  # fmt: skip
        with pytest.raises(ClosedError, match="has been closed"):
            call()
    assert (engine.columns["pos"] == position).all()  # what was there can still be read


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": 3}, "expected a seer.EventModel or a class derived from it, got int"),
        ({"model": dict}, "expected a seer.EventModel"),
        ({"worlds": 0}, "expected at least 1"),
        ({"worlds": -2}, "expected at least 1"),
        ({"worlds": 2.0}, "expected a whole number, got float"),
        ({"worlds": True}, "expected a whole number, got a bool"),
        ({"pool": "fast"}, 'expected "auto" or a PoolConfig, got str'),
        ({"pool": None}, "got NoneType"),
        ({"native": {"shuot": 1}}, "did you mean 'shout'"),
        ({"native": {"shout": 1}, "compiled": False}, "need compiled=True"),
        ({"native": 1}, "expected a dict of a sweep's or kind's name"),
        ({"native": {"shout": "f"}}, "expected the address of a C function"),
        ({"native": {"shout": -1}}, "a whole number above 0"),
    ],
)
def test_nonsense_is_refused_when_an_engine_is_built(arguments, words):
    with pytest.raises(ConfigError, match=words):
        seer.Engine(**{"model": Walkers, **arguments})


def test_state_that_does_not_fit_in_memory_is_an_error():
    with pytest.raises(seer.errors.OutOfMemoryError, match="which could not be had"):
        seer.Engine(Walkers(walkers=10**6), worlds=2**30)


def test_more_than_there_is_free_is_an_error_before_it_is_touched():
    # The system would promise so much, and then kill the process that uses it.
    free = seer.hardware.available_memory()
    with pytest.raises(seer.errors.OutOfMemoryError, match=r"had: \d+ are available"):
        seer.Engine(Walkers(walkers=1000), worlds=min(2 * free // 20_000, 2**31 - 1))


@pytest.mark.parametrize("mask", [[True], [1.0, 0.0], [[True, True]], "ab"])
def test_a_mask_of_the_wrong_form_is_refused(make, mask):
    engine = make(worlds=2)
    engine.reset(seed=1)
    with pytest.raises(ConfigError, match=r"mask: expected bool of shape \(2,\)"):
        engine.step(mask=mask)


def test_worlds_and_pools_are_checked_when_asked_for(make):
    engine = make(worlds=2)
    with pytest.raises(ConfigError, match="expected a world from 0 to 1"):
        engine.time(2)
    assert engine.pool.threads >= 1


def test_a_single_shard_is_shared_with_nobody_even_where_all_is_to_be_shared(make):
    engine = make(pool=PoolConfig(2, "lanes", 4096, share=True))
    engine.reset(seed=1)
    engine.step()
    counters = engine.counters()
    assert (counters["shared"], counters["wakes"], counters["spins"]) == (0, 0, 0)


def test_auto_splits_worlds_where_there_are_enough(monkeypatch):
    from seer import build

    monkeypatch.setattr(build, "usable_cpus", lambda: 4)
    assert build.pool_config("auto", 8) == PoolConfig(4, "worlds", spin_us=100)
    assert build.pool_config("auto", 7) == PoolConfig(4, "lanes", spin_us=100)
    monkeypatch.setattr(build, "usable_cpus", lambda: 1)
    assert build.pool_config("auto", 1) == PoolConfig(1, "worlds", spin_us=100)


def test_an_engine_that_nobody_holds_is_freed(make, compiled):
    engine = seer.Engine(Walkers, compiled=compiled)
    engine.reset(seed=1)
    core = weakref.ref(engine._core)
    view = engine.columns["pos"]
    del engine
    gc.collect()
    assert core() is None
    assert np.isfinite(view).all()


def test_native_functions_replace_methods():
    cffi = pytest.importorskip("cffi")
    assert cffi
    from seer._native import ffi

    calls = []

    @ffi.callback("seer_sweep_fn")
    def mine(ctx, first, last):
        calls.append((first, last, ctx.step))
        return 1

    address = int(ffi.cast("uintptr_t", mine))
    with seer.Engine(Choosers, pool=PoolConfig(1), native={"use": address}) as engine:
        engine.reset(seed=1)
        engine.step([[1, 1]])
    assert calls == [(0, 2, 0)]


def test_simulated_time_is_the_nearest_double(make):
    engine = make()
    engine.reset(seed=1)
    for step in range(1, 12):
        engine.step()
        assert engine.time() == round(step * engine.spec.step / 10**9, 12)


@pytest.mark.parametrize(
    ("tick", "ticks", "seconds"),
    [(1e-9, 30_000_000_000, 30.0), (1e-9, 300_000_000, 0.3), (1.0, 7, 7.0), (0.3, 10, 3.0),
     (2.5, 4, 10.0), (1e-3, 3, 0.003), (5e-324, 1, 5e-324)],
)  # fmt: skip
def test_ticks_in_seconds(tick, ticks, seconds):
    spec = dataclasses.replace(Walkers().spec, tick=tick)
    assert spec.seconds(ticks) == seconds


class Ages(seer.EventModel):
    """Steps of which ten fit before the last tick."""

    groups = {"node": 2}
    step = 2.2e8
    n = seer.column("i8")

    @seer.sweep()
    def count(ctx, s, i):
        s.n[i] += 1


@pytest.mark.parametrize("compiled", [True, False])
def test_a_step_beyond_the_last_tick_is_refused_and_a_reset_helps(compiled):
    with seer.Engine(Ages, worlds=2, compiled=compiled) as engine:
        engine.reset(seed=1)
        for _ in range(4):
            engine.step(mask=[True, False])
        for _ in range(6):
            engine.step()
        state = engine.state_dict()
        for _ in range(2):
            with pytest.raises(StateError, match=r"world 0 has come to the last tick, 2.2e\+09 s"):
                engine.step()
        assert engine.time() == 2.2e9
        engine.step(mask=[False, True])
        engine.reset(mask=[True, False])
        for _ in range(3):
            engine.step()
        with pytest.raises(StateError, match="world 1 has come"):
            engine.step()
        assert [engine.steps(0), engine.steps(1)] == [3, 10]
        engine.load_state_dict(state)
        with pytest.raises(StateError, match="world 0 has come"):
            engine.step()
        engine.reset(seed=1)
        engine.step()
        assert engine.columns["n"].tolist() == [[1, 1], [1, 1]]
