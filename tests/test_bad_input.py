"""Values of every kind, given to every call that takes one: each is used, or refused in words.

What is allowed: success, or an error of seer. Nothing else may come out, and the engine goes on.
"""

import warnings

import numpy as np
import pytest

import seer
from seer import PoolConfig, errors


class Pings(seer.EventModel):
    drones = seer.param(4, low=1, high=64)
    radius = seer.param(60.0, low=0.0)
    flag = seer.param(False)
    groups = {"drone": "drones"}
    agents = "drone"
    lookahead = 1e-3

    pos = seer.column("f8", 2, published=True)
    push = seer.action("f4", 2)
    sight = seer.observation("f4", 3)
    earned = seer.reward()
    ping = seer.event({"v": "f8"})
    furthest = seer.total("max", "pos")

    @seer.reset
    def place(ctx, s, i):
        s.pos[i, 0] = ctx.uniform()
        ctx.send("ping", i, 0.01, 1.0)

    @seer.on("ping")
    def pinged(ctx, s, i, e):
        s.pos[i, 1] += e.v
        ctx.send("ping", (i + 1) % s.p.drones, 0.01, e.v)


class Tensor:
    """An array of another library, which can't be read from here."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the tensor is on another device")


class Index:
    def __index__(self):
        raise ValueError("no index")


ODD = [
    None, True, False, 0, -1, 1, 2, 65, 10**6, 10**20, -(10**20), 2**63, 2**64, 1.5, -0.0,
    float("nan"), float("inf"), "", "auto", "café", b"a", [], {}, (), [1], [None], [1, 2], [[1]],
    set(), object(), type, int, len, 1j, np.float64(3), np.int64(2), np.uint64(2**64 - 1),
    np.bool_(True), np.longdouble(1), np.datetime64("2020"), np.ma.masked, np.array(3),
    np.array([3]), np.array([]), np.array("a"), np.array([None, "x"], dtype=object),
    np.zeros((2, 3)), Tensor(), Index(), range(2),
]  # fmt: skip
IDS = [f"{type(value).__name__}-{k}" for k, value in enumerate(ODD)]


def survives(call):
    """Whether it worked; anything but an error of seer, with words, is let out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except seer.SeerError as error:
            message = str(error)
        else:
            return True
    assert 10 < len(message) < 700
    return False


@pytest.fixture(scope="module", params=[True, False], ids=["compiled", "plain"])
def engine(request):
    with seer.Engine(Pings(), worlds=2, compiled=request.param) as made:
        yield made


@pytest.mark.parametrize("value", ODD, ids=IDS)
def test_what_is_built_takes_it_or_refuses_it_in_words(value):
    for name in ("threads", "axis", "grain", "spin_us", "pin", "share", "shuffle"):
        survives(lambda name=name: PoolConfig(**{"threads": 1, name: value}))
    for name in ("drones", "radius", "flag"):
        survives(lambda name=name: Pings(**{name: value}))
    number = 1 < (seer.types.whole(value) or 0) < 2**31
    for name in ("pool", "compiled", "debug", "native", "strict_actions", "worlds"):
        if name != "worlds" or not number:
            survives(lambda name=name: seer.Engine(Pings, **{name: value}).close())
    survives(lambda: seer.Engine(value))
    survives(lambda: seer.make(value))
    for name in ("horizon", "render_mode", "strict_actions", "pool", "compiled"):
        survives(lambda name=name: seer.make(Pings, **{name: value}).close())
    survives(lambda: seer.make("uav_swarm", drones=value).close() if not number else None)


@pytest.mark.parametrize("value", ODD, ids=IDS)
def test_an_engine_takes_it_or_refuses_it_in_words_and_goes_on(engine, value):
    engine.reset(seed=1)
    engine.step()
    before = engine.state_dict()
    for call in (
        lambda: engine.reset(seed=[value, value]),
        lambda: engine.reset(seed=value),
        lambda: engine.reset(seed=1, mask=value),
        lambda: engine.reset(seed=1, mask=[value, value]),
        lambda: engine.step(value),
        lambda: engine.step(mask=value),
        lambda: engine.step(mask=[value, value]),
        lambda: engine.set_pool(value),
        lambda: engine.time(value),
        lambda: engine.steps(value),
        lambda: engine.load_state_dict(value),
    ):
        survives(call)
    engine.load_state_dict(before)
    engine.step()
    after = seer.snapshot.digest(engine.state_dict())
    engine.load_state_dict(before)
    for name in before:
        survives(lambda name=name: engine.load_state_dict({**before, name: value}))
        for column in before[name] if name in ("columns", "seen") else ():
            bad = {**before, name: {**before[name], column: value}}
            assert not survives(lambda bad=bad: engine.load_state_dict(bad))
    engine.load_state_dict(before)
    engine.step()
    assert seer.snapshot.digest(engine.state_dict()) == after


@pytest.mark.parametrize("value", ODD, ids=IDS)
def test_an_environment_takes_it_or_refuses_it_in_words_and_goes_on(value):
    env = seer.make(Pings, horizon=3)
    for _ in range(2):
        env.reset(seed=1)
        survives(lambda: env.reset(seed=value))
        survives(lambda: env.reset(seed=1, options=value))
        survives(lambda: env.reset(seed=1, options={"horizon": value}))
        env.reset(seed=1)
        good = {agent: np.zeros(2, np.float32) for agent in env.agents}
        assert not survives(lambda: env.step(value))
        survives(lambda good=good: env.step({**good, "drone_0": value}))
        survives(lambda: env.action_space(value))
        if isinstance(value, (str, int, float, tuple, type(None))):
            with pytest.raises(errors.UnknownAgentError):
                env.step({**good, value: good["drone_0"]})
        env.reset(seed=1)
        env.step(good)
    env.close()
    env.close()


ACTIONS = np.zeros((2, 4, 2), np.float32)


@pytest.mark.parametrize(
    ("actions", "legal"),
    [
        (ACTIONS.astype("f8"), True), (ACTIONS.astype("i4"), True), (ACTIONS.astype("f2"), True),
        (ACTIONS.astype(">f4"), True), (np.asfortranarray(ACTIONS), True), (ACTIONS[::-1], True),
        (ACTIONS.tolist(), True), (np.broadcast_to(ACTIONS[0], ACTIONS.shape), True),
        (ACTIONS.astype(bool), True), (ACTIONS.astype(object), False),
        (ACTIONS.astype(complex), False), (ACTIONS.astype("U"), False),
        (ACTIONS.astype([("a", "f4")]), False), (ACTIONS[:1], False), (ACTIONS[:, :3], False),
        (ACTIONS[..., :1], False), (ACTIONS[..., None], False), (ACTIONS.reshape(8, 2), False),
        (ACTIONS[0], False), (ACTIONS.astype("f8") + 1e300, False), (ACTIONS + np.nan, False),
        (ACTIONS - np.inf, False), (np.zeros(()), False), ([[0.0], [0.0, 1.0]], False),
    ],
)  # fmt: skip
def test_actions_of_every_form(engine, actions, legal):
    engine.reset(seed=1)
    if isinstance(actions, np.ndarray):
        actions = actions.view()
        actions.flags.writeable = False
    if legal:
        engine.step(actions)
        return
    before = seer.snapshot.digest(engine.state_dict())
    with pytest.raises(errors.ActionError, match="expected"):
        engine.step(actions)
    assert seer.snapshot.digest(engine.state_dict()) == before


def test_a_state_whose_clock_is_beyond_the_last_tick_is_refused(engine):
    engine.reset(seed=1)
    state = engine.state_dict()
    for steps in (-1, 2**62, 2**61 // 10**8 + 1):
        with pytest.raises(errors.SnapshotError, match="expected steps from 0 to 23058430092"):
            engine.load_state_dict({**state, "steps": np.full(2, steps, np.int64)})
    engine.step()


@pytest.mark.parametrize("value", ODD, ids=IDS)
def test_checks_and_scores_take_it_or_refuse_it_in_words(value):
    quick = {"steps": 1, "worlds": 1, "plain": False, "configs": [PoolConfig(1, "lanes")]}
    small = (seer.types.whole(value) or 0) < 3
    for name in ("steps", "worlds", "seed", "configs"):
        if small or name == "seed":
            survives(lambda name=name: seer.verify(Pings, **{**quick, name: value}))
    survives(lambda: seer.verify(value))
    survives(lambda: seer.verify(Pings, **{**quick, "configs": [value]}))
    env = seer.make(Pings, horizon=2)
    for name in ("episodes", "seed"):
        if small or name == "seed":
            given = {"episodes": 1, name: value}
            survives(lambda given=given: seer.evaluate(env, zeros, **given))
    survives(lambda: seer.evaluate(env, value, episodes=1) if not callable(value) else None)
    env.close()


def zeros(observations):
    return np.zeros((*observations.shape[:2], 2), np.float32)
