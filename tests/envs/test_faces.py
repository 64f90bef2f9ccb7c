"""Every environment in the registry, through PettingZoo's own tests and ours."""

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)
from pettingzoo.utils.conversions import parallel_to_aec

import seer
import seer.envs

FOLDER = Path(seer.envs.__file__).parent
TASKS = ["coverage", "rendezvous"]
FORMS = [(task, discrete) for task in TASKS for discrete in (False, True)]


def make(**settings):
    return seer.make("uav_swarm_v0", **{"drones": 8, "horizon": 60, **settings})


def test_registry_lists_every_module_in_the_folder():
    modules = {path.stem for path in FOLDER.glob("*_v[0-9]*.py")}
    assert modules == set(seer.list())


@pytest.mark.parametrize("name", seer.list())
def test_module_has_the_usual_three_functions(name):
    module = importlib.import_module(f"seer.envs.{name}")
    made = module.parallel_env()
    assert str(made) == name
    assert module.env().metadata["name"] == module.raw_env().metadata["name"] == name
    made.close()


@pytest.mark.parametrize("name", seer.list())
def test_every_task_of_an_environment_has_a_page_in_the_protocol(name):
    text = (FOLDER / "PROTOCOL.md").read_text()
    package = importlib.import_module(f"seer.envs.{name.rsplit('_v', 1)[0]}")
    assert f"# {name}" in text
    for task in package.TASKS:
        assert f"\n## {task}\n" in text
    for scenario in package.SCENARIOS:
        assert f"| {scenario} |" in text


@pytest.mark.parametrize(("task", "discrete"), FORMS)
def test_pettingzoo_parallel(task, discrete):
    def factory():
        return make(task=task, discrete=discrete)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*unknown reset options.*")
        warnings.filterwarnings("ignore", ".*state space value.*")  # it is unbounded
        parallel_api_test(factory(), 200)
        parallel_seed_test(factory, 100)
        state_test(parallel_to_aec(factory()), factory())


@pytest.mark.parametrize(("task", "discrete"), FORMS)
def test_pettingzoo_turn_based(task, discrete):
    module = importlib.import_module("seer.envs.uav_swarm_v0")

    def factory():
        return module.env(task=task, discrete=discrete, drones=5, horizon=25)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*unknown reset options.*")
        api_test(factory(), num_cycles=60)
        seed_test(factory, num_cycles=20)


@pytest.mark.parametrize("task", TASKS)
def test_pettingzoo_render(task):
    pytest.importorskip("matplotlib").use("Agg")

    def factory(render_mode):
        return parallel_to_aec(make(task=task, drones=4, render_mode=render_mode))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no window can be opened.*")
        render_test(factory)


@pytest.mark.parametrize(("task", "discrete"), FORMS)
def test_same_seed_gives_every_value_again_over_two_episodes(task, discrete):
    """500 steps of 12 drones that run into each other; two environments, every value."""
    one, two = (
        make(task=task, discrete=discrete, drones=12, density=60.0, horizon=250) for _ in range(2)
    )
    deaths = 0
    for episode in range(2):
        seed = 11 if episode == 0 else None
        pair = [env.reset(seed=seed) for env in (one, two)]
        same(*pair)
        for agent in one.possible_agents:
            for env in (one, two):
                env.action_space(agent).seed(episode)
        steps = 0
        while one.agents and steps < 250:
            actions = {a: one.action_space(a).sample() for a in one.agents}
            again = {a: two.action_space(a).sample() for a in two.agents}
            results = one.step(actions), two.step(again)
            same(*results)
            assert one.agents == two.agents
            np.testing.assert_array_equal(one.state(), two.state())
            deaths += sum(results[0][2].values())
            steps += 1
        assert steps == 250
    assert deaths > 0


def same(a, b):
    """Equal to the bit, whatever is nested in what."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    else:
        assert a == b


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("drones", [1, 16, 400])
def test_render_gives_a_picture_that_changes(task, drones):
    env = make(task=task, drones=drones, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert (first.dtype, first.ndim, first.shape[2]) == (np.uint8, 3, 3)
    for _ in range(5):
        env.step({a: np.ones(3, np.float32) for a in env.agents})
    second = env.render()
    assert second.shape == first.shape
    assert (first != second).any()
    assert first.std() > 1.0


def test_render_human_without_a_screen_warns_and_goes_on():
    pytest.importorskip("matplotlib").use("Agg")
    env = make(render_mode="human")
    with pytest.warns(UserWarning, match="no window can be opened here"):
        env.reset(seed=0)
    env.step({a: np.zeros(3, np.float32) for a in env.agents})
    assert env.render() is None
    env.close()


def test_coverage_map_shows_what_was_watched():
    from seer.envs.uav_swarm.render import coverage_map

    env = make(drones=16)
    env.reset(seed=0)
    visits = np.zeros((40, 40))
    visits[:20] = 3.0
    picture = coverage_map(env.engine, env.model, visits)
    middle = picture[60:].mean(axis=(1, 2))
    assert middle[-200:].mean() > middle[:200].mean() + 20  # y points up


def test_reference_results_are_those_of_the_command():
    """One cheap row is measured again; the command ``--check`` does all."""
    import json

    from seer.envs.uav_swarm.reference import RESULTS, measure, table

    stored = json.loads(RESULTS.read_text())
    assert table(stored) in (FOLDER / "PROTOCOL.md").read_text()
    fresh = measure("rendezvous-16-easy", stored["episodes"])
    for policy, row in fresh.items():
        known = stored["scenarios"]["rendezvous-16-easy"][policy]
        assert row["mean_return"] == pytest.approx(known["mean_return"], rel=0.02)
