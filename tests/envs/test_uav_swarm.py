"""The swarm against plain numpy: flight, radio, senses, rewards, deaths, size."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

import seer
import seer.envs
from seer.envs.uav_swarm import SCENARIOS, heuristic, make_model, parallel_env
from seer.envs.uav_swarm.swarm import EACH, HEARD, OWN, centimetres, offset
from seer.errors import ConfigError, UnknownIdError

CALM = {"wind": 0.0, "gust": 0.0, "loss": 0.0}
G = 9.80665


def engine(task="coverage", worlds=1, compiled=True, **params):
    return seer.Engine(make_model(task, **params), worlds=worlds, compiled=compiled)


def put(eng, positions, velocities=None):
    """Place the drones of world 0."""
    eng.columns["pos"][0] = positions
    eng.columns["vel"][0] = 0.0 if velocities is None else velocities


def commands(k, shape):
    """Actions that do not depend on a library's generator."""
    n = int(np.prod(shape))
    return (((np.arange(n) * 104729 + k * 7919) % 2001 - 1000) / 1000).astype("f4").reshape(shape)


# ---- flight --------------------------------------------------------------------------------------


def flown(p, v, command, params, dt=0.1):
    """One step of the formulas in the README, in numpy."""
    f = params["acceleration"] * np.clip(command, -1, 1) + [0, 0, G]
    size = np.linalg.norm(f, axis=1, keepdims=True)
    f = f * np.minimum(1.0, params["thrust"] / size)
    w = v - [params["wind"], 0, 0]
    drag = params["linear_drag"] + params["quadratic_drag"] * np.linalg.norm(
        w, axis=1, keepdims=True
    )
    new = v + dt * (f - [0, 0, G] - drag * w)
    pace = np.linalg.norm(new, axis=1, keepdims=True)
    new = new * np.minimum(1.0, params["speed"] / np.maximum(pace, 1e-12))
    load = np.linalg.norm(f, axis=1) / G
    power = params["avionics_power"] + params["hover_power"] * load**1.5
    return p + 0.5 * dt * (v + new), new, power * dt / params["battery"]


def test_flight_agrees_with_the_formulas():
    eng = engine(drones=50, wind=3.0, gust=0.0, collision=0.0, thrust=12.0, speed=6.0)
    eng.reset(seed=1)
    params = eng.model.params
    world = 100 * np.sqrt(50 / 10)
    rng = np.random.default_rng(0)
    position = rng.uniform([50, 50, 15], [world - 50, world - 50, 35], (50, 3))
    velocity = rng.uniform(-3, 3, (50, 3))
    put(eng, position, velocity)
    charge = np.ones(50)
    for _ in range(15):
        command = rng.uniform(-1, 1, (50, 3)).astype("f4")
        eng.step(command[None])
        position, velocity, used = flown(position, velocity, command.astype("f8"), params)
        charge -= used
        np.testing.assert_allclose(eng.columns["pos"][0], position, rtol=0, atol=1e-9)
        np.testing.assert_allclose(eng.columns["vel"][0], velocity, rtol=0, atol=1e-9)
        np.testing.assert_allclose(eng.columns["charge"][0], charge, rtol=1e-12)


def test_flight_terminal_speed_in_wind_is_the_winds():
    eng = engine(drones=1, wind=2.0, gust=0.0, density=0.01)
    eng.reset(seed=1)
    for _ in range(900):
        eng.step(np.zeros((1, 1, 3), "f4"))
    np.testing.assert_allclose(eng.columns["vel"][0, 0], [2.0, 0.0, 0.0], atol=1e-2)


def test_gusts_have_their_deviation_and_correlation():
    eng = engine(drones=1000, gust=1.5, gust_time=2.0, collision=0.0)
    eng.reset(seed=3)
    seen = []
    for _ in range(120):
        eng.step(np.zeros((1, 1000, 3), "f4"))
        seen.append(eng.columns["gusts"][0].copy())
    g = np.stack(seen[60:])
    assert abs(g.mean()) < 0.05
    assert g.std() == pytest.approx(1.5, rel=0.05)
    assert (g[20:] * g[:-20]).mean() / 1.5**2 == pytest.approx(0.95**20, abs=0.05)


def test_fence_holds_everybody():
    eng = engine(drones=30, wind=10.0, gust=5.0, collision=0.0)
    eng.reset(seed=1)
    world = 100 * np.sqrt(30 / 10)
    for k in range(300):
        eng.step(commands(k // 100, (1, 30, 3)))
        p = eng.columns["pos"][0]
        assert (p >= 0).all()
        assert (p <= [world, world, 50.0]).all()
    assert (p[:, 0] == world).any()


def test_not_a_number_in_an_action_cannot_spread():
    eng = engine(drones=4)
    eng.reset(seed=1)
    with pytest.raises(ValueError, match="drone_2"):
        eng.step(np.where(np.arange(12).reshape(1, 4, 3) == 7, np.nan, 0.0).astype("f4"))


def test_discrete_actions_are_the_six_directions():
    eng = engine(drones=7, discrete=True, linear_drag=0.0, quadratic_drag=0.0, **CALM)
    eng.reset(seed=1)
    eng.step(np.arange(7).reshape(1, 7, 1))
    expected = np.array(
        [[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]
    )
    np.testing.assert_allclose(eng.columns["vel"][0], 0.5 * expected, atol=1e-12)


# ---- deaths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
def test_collision_ends_both_lives_once(task):
    env = parallel_env(task, drones=3, **CALM)
    env.reset(seed=1)
    put(env.engine, [[10, 10, 10], [10.5, 10, 10], [40, 40, 10]])
    still = {a: np.zeros(3, "f4") for a in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(still)
    assert list(terminations.values()) == [True, True, False]
    assert not any(truncations.values())
    assert infos["drone_0"] == infos["drone_1"] == {"cause": "collision"}
    assert infos["drone_2"] == {}
    assert env.agents == ["drone_2"]
    assert rewards["drone_0"] == rewards["drone_1"] <= rewards["drone_2"] - 10.0 + 1e-9
    assert np.isclose(observations["drone_0"][OWN + 1], 0.5 / 30, atol=1e-6)
    for _ in range(3):
        env.step({"drone_2": np.zeros(3, "f4")})
    assert (env.engine.reward[0, :2] == 0).all()
    assert not env.engine.terminated[0].any()
    assert (env.engine.observation[0, :2] == 0).all()
    assert env.engine.alive[0].tolist() == [False, False, True]


def test_flat_battery_ends_a_life():
    env = parallel_env(drones=2, battery=158.0 * 0.95, **CALM)
    env.reset(seed=1)
    for k in range(10):
        _, _, terminations, _, infos = env.step({a: np.zeros(3, "f4") for a in env.agents})
        assert all(terminations.values()) == (k == 9)
    assert infos["drone_0"] == {"cause": "flat battery"}
    assert env.agents == []


def test_dead_drones_are_neither_seen_nor_heard():
    eng = engine(drones=2, **CALM)
    eng.reset(seed=1)
    put(eng, [[10, 10, 10], [15, 10, 10]])
    eng.columns["alive"][0, 1] = 0
    for _ in range(15):
        eng.step(np.zeros((1, 2, 3), "f4"))
    assert eng.observation[0, 0, OWN] == 0
    assert eng.counters()["kinds"]["packet"] == 0
    counters = eng.counters()
    assert counters["unhandled"] == 1  # its own timer, once


# ---- radio ---------------------------------------------------------------------------------------


def test_radio_everyone_in_range_hears_once_a_second():
    n = 60
    eng = engine(
        drones=n, linear_drag=0.0, quadratic_drag=0.0, collision=0.0, memory=1e15, **CALM
    )  # fmt: skip
    eng.reset(seed=5)
    at = eng.columns["pos"][0]
    gap = np.linalg.norm(at[:, None] - at[None], axis=-1)
    expected = ((gap <= 60.0) & (gap > 0)).sum(axis=1)
    for _ in range(31):
        eng.step(np.zeros((1, n, 3), "f4"))
    # Three beacons of each have arrived for certain, and of some the fourth.
    heard = np.rint(eng.columns["ears"][0, :, 3])
    assert (heard >= 3 * expected).all()
    assert (heard <= 4 * expected).all()
    assert heard.sum() == eng.counters()["kinds"]["packet"]


@pytest.mark.parametrize(
    ("loss", "fading", "odds"),
    [(0.3, 0.0, 0.7), (0.0, 2.0, np.exp(-2.0 * 0.25)), (0.5, 1.0, 0.5 * np.exp(-0.25))],
)
def test_radio_loses_what_the_formula_says(loss, fading, odds):
    eng = engine(
        drones=2, worlds=400, linear_drag=0.0, quadratic_drag=0.0, wind=0.0, gust=0.0,
        loss=loss, fading=fading,
    )  # fmt: skip
    eng.reset(seed=0)
    eng.columns["pos"][:] = [[5.0, 5.0, 10.0], [35.0, 5.0, 10.0]]
    for _ in range(101):
        eng.step(np.zeros((400, 2, 3), "f4"))
    kinds = eng.counters()["kinds"]
    sent = kinds["beacon"]
    spread = 5 * np.sqrt(odds * (1 - odds) / sent)
    assert kinds["packet"] / sent == pytest.approx(odds, abs=spread)


def test_radio_packet_takes_airtime_and_flight():
    model = make_model(drones=2, packet_bytes=125, bitrate=1e5)
    assert model.spec.lookahead == 10_000_000
    eng = seer.Engine(model)
    eng.reset(seed=4)
    put(eng, [[5.0, 5.0, 10.0], [45.0, 5.0, 10.0]])
    # The time of hearing is written down; beacons are sent at a phase within [0, 1).
    for _ in range(11):
        eng.step(np.zeros((1, 2, 3), "f4"))
    times = eng.columns["ears"][0, :, 7]
    assert (times >= 0.01 + 40 / 299_792_458.0 - 1e-9).all()
    assert (times < 1.1 + 0.02).all()


@pytest.mark.parametrize("x", [0.0, 12.345, 327.67, 327.68, 655.36, 1234.567, 31622.0])
@pytest.mark.parametrize("d", [-300.0, -0.004, 0.0, 59.99, 300.0])
def test_radio_position_survives_its_16_bits(x, d):
    sent = centimetres(x + d) if x + d >= 0 else None
    if sent is not None:
        assert -32768 <= sent < 32768
        assert offset(sent, x) == pytest.approx(d, abs=0.0101)


# ---- senses and rewards --------------------------------------------------------------------------


def test_senses_nearest_neighbours_equal_all_pairs():
    n, k = 200, 4
    eng = engine(drones=n, density=30.0, collision=0.0)
    eng.reset(seed=2)
    for step in range(5):
        eng.step(commands(step, (1, n, 3)))
    at, v = eng.columns["pos"][0], eng.columns["vel"][0]
    gap = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(gap, np.inf)
    for i in range(n):
        near = [j for j in np.argsort(gap[i])[:k] if gap[i, j] <= 30.0]
        rows = eng.observation[0, i, OWN : OWN + EACH * k].reshape(k, EACH)
        assert rows[:, 0].tolist() == [1.0] * len(near) + [0.0] * (k - len(near))
        np.testing.assert_allclose(
            rows[: len(near), 1:4], (at[near] - at[i]) / 30, atol=1e-6, rtol=0
        )
        np.testing.assert_allclose(rows[: len(near), 4:7], (v[near] - v[i]) / 12, atol=1e-6, rtol=0)
        assert (rows[len(near) :] == 0).all()


def test_senses_mean_of_teammates_is_where_they_are():
    eng = engine("rendezvous", drones=3, linear_drag=0.0, quadratic_drag=0.0, **CALM)
    eng.reset(seed=1)
    put(eng, [[10, 10, 10], [30, 10, 20], [20, 40, 10]])
    for _ in range(40):
        eng.step(np.zeros((1, 3, 3), "f4"))
    mean = eng.observation[0, 0, OWN + EACH * 4 :][1:4] * 60
    np.testing.assert_allclose(mean, [15, 15, 5], atol=4.0)  # each counts by how fresh it is


def test_teams_do_not_listen_to_each_other():
    eng = engine("rendezvous", drones=4, team_size=2, linear_drag=0.0, quadratic_drag=0.0, **CALM)
    eng.reset(seed=1)
    put(eng, [[10, 10, 10], [20, 10, 10], [10, 20, 10], [20, 20, 10]])
    for _ in range(30):
        eng.step(np.zeros((1, 4, 3), "f4"))
    mean = eng.observation[0, :, OWN + EACH * 4 :][:, 1:4] * 60
    np.testing.assert_allclose(mean, [[10, 0, 0], [-10, 0, 0]] * 2, atol=0.02)
    assert eng.counters()["kinds"]["packet"] >= 3 * 4 * 3 - 4


@pytest.mark.parametrize("shared", [True, False])
def test_coverage_reward_equals_all_pairs(shared):
    n = 60
    eng = engine(drones=n, points_per_drone=1.5, shared=shared, collision=0.0)
    eng.reset(seed=9)
    for step in range(20):
        eng.step(commands(step // 5, (1, n, 3)))
        spots = np.c_[eng.columns["spot"][0], np.zeros(90)]
        gap = np.linalg.norm(spots[:, None] - eng.columns["pos"][0][None], axis=-1)
        covered = gap.min(axis=1) <= 20.0
        owner = np.where(covered, gap.argmin(axis=1), -1)
        np.testing.assert_array_equal(eng.columns["owner"][0], owner)
        if shared:
            np.testing.assert_allclose(eng.reward[0], covered.mean(), rtol=1e-12)
        else:
            own = np.bincount(owner[covered], minlength=n)
            np.testing.assert_allclose(eng.reward[0], own / 1.5, rtol=1e-12)
            assert eng.reward[0].mean() == pytest.approx(covered.mean())
    assert 0 < covered.mean() < 1


def test_coverage_goals_are_the_nearest_points_that_nobody_else_owns():
    n = 40
    eng = engine(drones=n, points_per_drone=4.0, sensing=10.0, collision=0.0)
    eng.reset(seed=9)
    for step in range(8):
        eng.step(commands(step // 8, (1, n, 3)))
    spots, owner = eng.columns["spot"][0], eng.columns["owner"][0]
    start = OWN + EACH * 4 + HEARD
    for i in range(n):
        away = spots - eng.columns["pos"][0, i, :2]
        gap = np.linalg.norm(away, axis=1)
        good = (gap <= 30.0) & ((owner == -1) | (owner == i))
        near = [j for j in np.argsort(gap) if good[j]][:3]
        rows = eng.observation[0, i, start : start + 12].reshape(3, 4)
        assert rows[:, 0].tolist() == [1.0] * len(near) + [0.0] * (3 - len(near))
        np.testing.assert_allclose(rows[: len(near), 1:3], away[near] / 30, atol=1e-6)
        assert rows[: len(near), 3].tolist() == (owner[near] == i).tolist()
        free = ((owner == -1) & (gap <= 30.0)).sum()
        taken = ((owner != -1) & (owner != i) & (gap <= 30.0)).sum()
        assert eng.observation[0, i, -2:].tolist() == [min(free / 8, 4), min(taken / 8, 4)]


@pytest.mark.parametrize("shared", [True, False])
def test_rendezvous_reward_equals_the_formula(shared):
    n = 20  # one team of 16 and one of 4
    eng = engine("rendezvous", drones=n, shared=shared, collision=0.0)
    eng.reset(seed=9)
    eng.columns["alive"][0, 3] = 0
    for step in range(6):
        eng.step(commands(step // 6, (1, n, 3)))
    alive = eng.alive[0]
    for team in (np.arange(16), np.arange(16, 20)):
        at = eng.columns["pos"][0, team]
        living = alive[team]
        d = np.linalg.norm(at - at[living].mean(axis=0), axis=1)
        close = np.where(living, 1 / (1 + d / 10.0), 0.0)
        expected = np.full(len(team), close.mean()) if shared else close
        np.testing.assert_allclose(eng.reward[0, team][living], expected[living], rtol=1e-9, atol=0)


@pytest.mark.parametrize("odd", [{}, {"sight": 2.0, "radio_range": 1.0, "memory": 60.0}])
@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
def test_observations_lie_in_their_space(task, odd):
    env = parallel_env(task, drones=40, density=40.0, collision=0.0, **odd)
    env.reset(seed=0)
    space = env.observation_space("drone_0")
    for k in range(150):
        actions = dict(zip(env.agents, commands(k // 30, (40, 3)), strict=True))
        observations = env.step(actions)[0]
        block = np.stack(list(observations.values()))
        assert np.isfinite(block).all()
        assert (abs(block) <= space.high[0]).all()
    assert space.contains(observations["drone_0"])


# ---- the same bits -------------------------------------------------------------------------------

#: Over 60 steps: everything an agent gets. One value per task; it may change only with the id's
#: version. Only + - * / and sqrt are behind these numbers (no fading), so they hold on any machine
#: with IEEE arithmetic and a build that doesn't fuse multiplications.
GOLDEN = {
    "coverage": "f2115af587542311",
    "rendezvous": "f6cc4ddb072a1005",
    "discrete": "c4c703a3d4f84554",
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_trajectory(case):
    task = "coverage" if case == "discrete" else case
    eng = engine(task, drones=48, discrete=case == "discrete", collision=3.0, density=90.0)
    eng.reset(seed=20)
    digest = hashlib.sha256()
    for k in range(60):
        action = commands(k // 6, eng.action.shape)
        eng.step(np.round(3 + 3 * action) if case == "discrete" else action)
        for part in (eng.observation, eng.reward, eng.terminated):
            digest.update(np.ascontiguousarray(part).tobytes())
    assert not eng.alive.all()
    assert digest.hexdigest()[:16] == GOLDEN[case]


@pytest.mark.parametrize(
    ("task", "extra"), [("coverage", {}), ("coverage", {"discrete": True}), ("rendezvous", {})]
)
def test_compiled_equals_plain_python(task, extra):
    one = engine(task, drones=20, compiled=True, collision=3.0, **extra)
    two = engine(task, drones=20, compiled=False, collision=3.0, **extra)
    for eng in (one, two):
        eng.reset(seed=8)
    for k in range(25):
        action = commands(k // 5, one.action.shape)
        action = np.round(3 + 3 * action) if extra else action
        for eng in (one, two):
            eng.step(action)
        for name in one.columns:
            np.testing.assert_array_equal(one.columns[name], two.columns[name], err_msg=name)


def test_fading_agrees_with_plain_python():
    one, two = (engine(drones=20, compiled=c, fading=1.0, loss=0.2) for c in (True, False))
    for eng in (one, two):
        eng.reset(seed=8)
        for k in range(15):
            eng.step(commands(k, eng.action.shape))
    np.testing.assert_array_equal(one.observation, two.observation)


@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
def test_same_bits_on_every_pool(task):
    model = make_model(task, drones=150, density=60.0, fading=1.0, loss=0.1, collision=2.0)
    report = seer.verify(model, steps=12, worlds=2, seed=5)
    assert report, str(report)


@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
def test_worlds_equal_single_environments(task):
    many = engine(task, worlds=5, drones=12, collision=2.0)
    many.reset(seed=30)
    alone = [engine(task, drones=12, collision=2.0) for _ in range(5)]
    for w, eng in enumerate(alone):
        eng.reset(seed=30 + w)
    for k in range(40):
        action = commands(k // 4, many.action.shape)
        many.step(action)
        for w, eng in enumerate(alone):
            eng.step(action[w : w + 1])
            np.testing.assert_array_equal(many.observation[w], eng.observation[0])
            np.testing.assert_array_equal(many.reward[w], eng.reward[0])


# ---- policies, size, names ---------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_heuristic_beats_random_clearly(scenario):
    env = parallel_env(scenario=scenario)
    result = seer.evaluate(env, "random", episodes=10)
    heuristics = result.heuristic_return
    assert heuristics > 2 * result.random_return
    assert result.score == pytest.approx(0.0)


@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
def test_heuristic_with_discrete_actions(task):
    env = parallel_env(task, discrete=True, horizon=150)
    result = seer.evaluate(env, "heuristic", episodes=5)
    assert result.mean_return > 1.5 * result.random_return


def test_heuristic_takes_any_number_of_axes():
    model = make_model()
    act = heuristic(model)
    o = np.random.default_rng(0).uniform(-1, 1, (3, 16, 59)).astype("f4")
    assert act(o).shape == (3, 16, 3)
    np.testing.assert_array_equal(act(o)[1, 2], act(o[1, 2]))
    assert (abs(act(o)) <= 1).all()


@pytest.mark.parametrize("task", ["coverage", "rendezvous"])
@pytest.mark.parametrize("drones", [1, 2, 3, 17, 10_000])
def test_any_number_of_drones(task, drones):
    eng = engine(task, drones=drones)
    eng.reset(seed=0)
    for k in range(12):
        eng.step(commands(k, eng.action.shape))
    assert np.isfinite(eng.observation).all()
    assert eng.alive.mean() > 0.99 or drones < 10


@pytest.mark.slow
def test_hundred_thousand_drones_fit_in_a_kilobyte_each():
    eng = engine(drones=100_000)
    eng.reset(seed=0)
    for k in range(12):
        eng.step(commands(k, eng.action.shape))
    assert sum(eng.memory().values()) < 1000 * 100_000
    assert eng.alive.mean() > 0.99


def test_density_does_not_depend_on_the_number():
    seen = []
    for drones in (64, 4096):
        eng = engine(drones=drones)
        eng.reset(seed=0)
        seen.append(eng.observation[0, :, OWN : OWN + 28 : EACH].sum(axis=1).mean())
    assert seen[0] == pytest.approx(seen[1], rel=0.3)


def test_start_keeps_everybody_apart():
    eng = engine(drones=2000, density=500.0, worlds=2)
    eng.reset(seed=0)
    at = eng.columns["pos"][0]
    gap = np.linalg.norm(at[:, None, :2] - at[None, :, :2], axis=-1)
    np.fill_diagonal(gap, np.inf)
    assert gap.min() >= 1.0
    assert (at >= 0).all()
    assert not np.array_equal(at, eng.columns["pos"][1])


def test_readme_lists_every_parameter():
    text = (Path(seer.envs.__file__).parent / "uav_swarm" / "README.md").read_text()
    for model in (make_model("coverage"), make_model("rendezvous")):
        for name, value in model.params.items():
            shown = str(value) if isinstance(value, bool) else f"{value:g}"
            assert f"| `{name}` | {shown} | " in text, name


def test_scenarios_are_frozen():
    env = parallel_env(scenario="coverage-16-hard", render_mode="rgb_array", discrete=True)
    assert (env.horizon, env.model.p.sensing) == (500, 12.0)
    with pytest.raises(ConfigError, match=r"has sensing=12\.0, got sensing=30"):
        parallel_env(scenario="coverage-16-hard", sensing=30)
    with pytest.raises(ConfigError, match=r"is frozen, so speed=3"):
        parallel_env(scenario="coverage-16-hard", speed=3)
    with pytest.raises(ConfigError, match="has task='coverage', got task='rendezvous'"):
        parallel_env("rendezvous", scenario="coverage-16-hard")
    with pytest.raises(UnknownIdError, match="did you mean 'coverage-16-hard'"):
        parallel_env(scenario="coverage-16-hrad")


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"task": "chess"}, "task must be one of coverage, rendezvous, got 'chess'"),
        ({"drones": 0}, "at least 1"),
        ({"drones": -5}, "at least 1"),
        ({"drones": 2.5}, "expected int"),
        ({"dronse": 5}, "did you mean 'drones'"),
        ({"loss": 1.5}, "at most 1.0"),
        ({"loss": float("nan")}, "must be a number"),
        ({"task": "rendezvous", "sensing": 5.0}, "no parameter 'sensing'"),
    ],
)
def test_bad_settings_are_named(kwargs, text):
    with pytest.raises(ConfigError, match=text):
        parallel_env(**kwargs)
