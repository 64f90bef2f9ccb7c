"""Models through Gymnasium: one mind, or rows; and the ids, whoever is imported first."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from vector.native_models import Crowd

import seer
from seer.central import CentralEnv
from seer.errors import ActionError, ClosedError, ConfigError, StateError

ROOT = Path(__file__).resolve().parent.parent
ID = "seer/UavSwarm-v0"


@pytest.mark.parametrize("kwargs", [
    {"drones": 3}, {"drones": 2, "discrete": True}, {"drones": 4, "task": "rendezvous"},
    {"drones": 2, "horizon": 3}, {"scenario": "coverage-16-medium"},
], ids=str)  # fmt: skip
def test_gymnasiums_own_check(kwargs):
    env = gymnasium.make(ID, render_mode="rgb_array", **kwargs)
    check_env(env.unwrapped, skip_render_check=False)
    env.close()


def test_one_mind_is_all_agents():
    kwargs = {"drones": 5, "density": 700.0, "battery": 500.0, "horizon": 30}
    env, single = CentralEnv(**kwargs), seer.make("uav_swarm", **kwargs)
    rng, deaths, ends = np.random.default_rng(0), 0, []
    for seed in (4, None, None, 9, None):
        obs, info = env.reset(seed=seed)
        want, _ = single.reset(seed=seed)
        np.testing.assert_array_equal(obs, np.stack(list(want.values())))
        assert info["live"].all()
        over = False
        while not over:
            action = rng.uniform(-1, 1, (5, 3)).astype("f4")
            action[~info["live"]] = np.nan
            acts = {a: action[env.agents.index(a)] for a in single.agents}
            obs, reward, terminated, truncated, info = env.step(action)
            want, rewards, terms, truncs, told = single.step(acts)
            for k, agent in enumerate(env.agents):
                np.testing.assert_array_equal(obs[k], want.get(agent, np.zeros(59, "f4")))
                assert info["rewards"][k] == rewards.get(agent, 0.0)
                assert info["live"][k] == (agent in single.agents)
                assert info.get(agent, {}) == told.get(agent, {})
            assert reward == info["rewards"].mean() and isinstance(reward, float)
            deaths += sum(terms.values())
            over = not single.agents
            assert (terminated or truncated) == over
            assert truncated == any(truncs.values())
        ends.append((terminated, truncated))
        with pytest.raises(StateError, match="ended"):
            env.step(action)
    assert deaths and {(False, True)} <= set(ends)
    np.testing.assert_array_equal(env.state(), single.state())
    assert env.np_random_seed == 9
    env.close()
    env.close()
    with pytest.raises(ClosedError):
        env.reset()


def test_everybody_dead_is_terminated():
    env = CentralEnv(Crowd, count=2, hazard=1.0, horizon=1)
    env.reset(seed=0)
    assert env.step(np.zeros((2, 2), "f4"))[2:4] == (True, False)
    env = CentralEnv(Crowd, count=2, hazard=0.0, horizon=1)
    env.reset(seed=0)
    assert env.step(np.zeros((2, 2), "f4"))[2:4] == (False, True)


def test_illegal_calls():
    env = CentralEnv(drones=3)
    with pytest.raises(StateError, match="reset first"):
        env.step(env.action_space.sample())
    env.reset(seed=0)
    before = env.state()
    for action, words in (
        (np.zeros((2, 3), "f4"), "expected an action of shape"),
        (np.zeros((3, 3), "c8"), "of dtype float32"),
        (np.full((3, 3), np.nan), "finite"),
        ("north", "shape"),
    ):
        with pytest.raises(ActionError, match=words):
            env.step(action)
    np.testing.assert_array_equal(env.state(), before)
    env.step(np.zeros((3, 3)))
    with pytest.raises(ConfigError, match="horizon"):
        env.reset(options={"horizon": 0})
    with pytest.warns(UserWarning, match="unknown reset options"):
        env.reset(options={"wind": 3})
    with pytest.raises(ConfigError):
        CentralEnv(drones=0)
    env = CentralEnv(drones=2, discrete=True)
    env.reset(seed=0)
    with pytest.raises(ActionError, match="from 0 to 6, got 7"):
        env.step(np.array([0, 7]))


def test_frames():
    env = gymnasium.make(ID, drones=2, render_mode="rgb_array")
    env.reset(seed=1)
    single = seer.make("uav_swarm", drones=2, render_mode="rgb_array")
    single.reset(seed=1)
    np.testing.assert_array_equal(env.render(), single.render())
    assert env.metadata["render_fps"] == single.metadata["render_fps"]


def test_a_vector_counts_worlds():
    vec = gymnasium.make_vec(
        ID, num_envs=4, drones=3, horizon=5, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    assert isinstance(vec, gymnasium.vector.VectorEnv)
    assert (vec.num_envs, vec.num_worlds, vec.agents_per_world) == (12, 4, 3)
    assert vec.spec.id == ID
    assert vec.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    obs, _ = vec.reset(seed=3)
    single = seer.make("uav_swarm", drones=3)
    want, _ = single.reset(seed=5)
    np.testing.assert_array_equal(obs[6:9], np.stack(list(want.values())))
    for t in range(1, 8):
        _, _, _, truncated, infos = vec.step(vec.action_space.sample())
        assert truncated.all() == (t == 5) and ("final_obs" in infos) == (t == 5)
    vec.close()
    short = gymnasium.make_vec(ID, num_envs=1, drones=2, max_episode_steps=2)
    short.reset()
    assert not short.step(short.action_space.sample())[3].any()
    assert short.step(short.action_space.sample())[3].all()


def test_gymnasiums_vectors_take_the_single_form():
    vec = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync", drones=2)
    obs, _ = vec.reset(seed=0)
    assert obs.shape == (2, 2, 59)
    vec.step(vec.action_space.sample())
    vec.close()


USE = (
    f"env = gymnasium.make({ID!r}, drones=2); env.reset(seed=0); "
    f"vec = gymnasium.make_vec({ID!r}, num_envs=2, drones=2); vec.reset(seed=0); "
    "print(env.unwrapped.action_space.shape, vec.num_envs)"
)


@pytest.mark.parametrize("order", [
    "import seer; import gymnasium",
    "import gymnasium; import seer",
    "import seer; from gymnasium.envs.registration import registry; import gymnasium",
    "import seer.vector; import gymnasium",
    "import gymnasium.spaces; import seer.errors",
    "import seer; import pettingzoo; import gymnasium",
    "import seer, sys; del sys.modules['seer']; import seer; import gymnasium",
])  # fmt: skip
@pytest.mark.parametrize("installed", [True, False])
def test_ids_exist_whoever_is_imported_first(order, installed, tmp_path):
    """Also where the package is on the path only, not installed."""
    where = [str(ROOT), *(p for p in sys.path if p.endswith("site-packages"))]
    code = order + "; " + USE
    if not installed:
        code = f"import sys; sys.path += {where!r}; " + code
    done = subprocess.run(
        [sys.executable, *([] if installed else ["-S"]), "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.strip() == "(2, 3) 4", done.stderr


def test_import_of_gymnasium_leaves_no_trace():
    code = (
        "import sys; before = list(sys.meta_path); import seer; assert 'gymnasium' not in "
        "sys.modules; import gymnasium; import inspect; from gymnasium.envs import registration; "
        "assert sys.meta_path == before; "
        "assert type(registration.__loader__).__name__ == 'SourceFileLoader'; "
        "assert registration.__spec__.loader is registration.__loader__; "
        "print(len(inspect.getsource(registration)) > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "True", done.stderr
