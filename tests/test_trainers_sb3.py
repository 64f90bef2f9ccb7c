"""Rows for Stable-Baselines3: its own vector beside ours, deaths, infos, and its tools on top."""

import functools
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from vector.worlds import Ledger, Masked

import seer
from seer.errors import ClosedError, ConfigError, StateError

pytest.importorskip("stable_baselines3", reason='needs pip install "seer-marl[sb3]"')

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from seer.trainers import sb3

POLE = functools.partial(gymnasium.make, "CartPole-v1")
BACKENDS = [{"backend": "serial"}, {"workers": 2}]


def ledgers(count=2, **options):
    return [functools.partial(Ledger, tag=k, **options) for k in range(count)]


def told(env, agent):
    return {"t": env.t, "who": agent, "episode_number": env.episode}


class Pole(gymnasium.Env):
    """A pole whose infos say something, and whose episodes are short."""

    def __init__(self):
        self.pole = gymnasium.make("CartPole-v1", max_episode_steps=15)
        self.observation_space, self.action_space = (
            self.pole.observation_space, self.pole.action_space,
        )  # fmt: skip

    def reset(self, *, seed=None, options=None):
        self.t, self.got = 0, options
        return self.pole.reset(seed=seed)[0], {"began": True, "options": options}

    def step(self, action):
        self.t += 1
        *found, _ = self.pole.step(action)
        return (*found, {"t": self.t, "even": np.array([self.t, 2 * self.t])})

    def double(self, value, plus=0):
        return 2 * value + plus

    def close(self):
        self.pole.close()


class Odd(gymnasium.Env):
    """Only its spaces matter."""

    def __init__(self, observation=None, action=None):
        self.observation_space = observation or Box(0, 1, (2,), np.float32)
        self.action_space = action or Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


# ---- beside Stable-Baselines3's own vector -----------------------------------------------------


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_the_same_as_its_own_vector(options):
    ours, theirs = sb3.make(Pole, 3, **options), DummyVecEnv([Pole] * 3)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng, ended = np.random.default_rng(0), {True: 0, False: 0}
    for venv in (ours, theirs):
        assert venv.seed(5) == [5, 6, 7]
        venv.set_options({"level": 3})
    got, want = ours.reset(), theirs.reset()
    np.testing.assert_array_equal(got, want)
    assert ours.reset_infos == theirs.reset_infos == [{"began": True, "options": {"level": 3}}] * 3
    for _ in range(150):
        actions = rng.integers(0, 2, 3)
        got, want = ours.step(actions), theirs.step(actions)
        for mine, other in zip(got[:3], want[:3], strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == other.dtype
        for mine, other in zip(got[3], want[3], strict=True):
            mine = dict(mine)
            assert mine.pop("live") is True
            if "terminal_observation" in other:
                episode = mine.pop("episode")
                assert episode["l"] == other["t"] == episode["r"]
                ended[other["TimeLimit.truncated"]] += 1
            np.testing.assert_equal(mine, other)
        assert ours.reset_infos == theirs.reset_infos
    assert ended[True] > 3 and ended[False] > 3
    ours.close()
    theirs.close()


# ---- agents that end before their environment ------------------------------------------------


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_a_death_is_told_once(options):
    venv = sb3.make(ledgers(told=told, dies={"b": 2}, leaves={"c": 3}), **options)
    venv.reset()
    assert (venv.num_envs, venv.num_worlds, venv.agents_per_world) == (6, 2, 3)
    steps = [venv.step(np.zeros(6, int)) for _ in range(4)]
    dones = np.array([done for _, _, done, _ in steps])
    np.testing.assert_array_equal(dones, np.array([
        [0, 0, 0] * 2, [0, 1, 0] * 2, [0, 0, 1] * 2, [1, 0, 0] * 2,
    ], bool))  # fmt: skip
    rewards = np.array([reward for _, reward, _, _ in steps])
    assert rewards.dtype == np.float32
    np.testing.assert_array_equal(
        rewards[:, 3:], [[101, 111, 121], [102, 112, 122], [103, 0, 123], [104, 0, 0]]
    )
    live = np.array([[info["live"] for info in infos] for *_, infos in steps])
    np.testing.assert_array_equal(live[:, :3], [[1, 1, 1], [1, 0, 1], [1, 0, 0], [1, 1, 1]])

    # What is seen after an end is filler; after the environment's end the next episode.
    observations = np.array([seen for seen, *_ in steps])
    np.testing.assert_array_equal(observations[1:3, 4], 0)
    np.testing.assert_array_equal(observations[2, 5], 0)
    np.testing.assert_array_equal(observations[3, 3:], [[1, 0, 1, 0], [1, 1, 1, 0], [1, 2, 1, 0]])

    ends = {4: (1, False, 2, 223.0), 5: (2, True, 3, 366.0), 3: (3, True, 4, 410.0)}
    for row, (at, truncated, length, earned) in ends.items():
        info = steps[at][3][row]
        np.testing.assert_array_equal(info["terminal_observation"], [1, row - 3, 0, at + 1])
        assert info["TimeLimit.truncated"] is truncated
        assert (info["episode"]["l"], info["episode"]["r"]) == (length, earned)
        assert info["episode"]["t"] >= 0
        assert (info["t"], info["who"], info["episode_number"]) == (at + 1, "abc"[row - 3], 0)
        others = [infos[row] for k, (*_, infos) in enumerate(steps) if k != at]
        assert not any("terminal_observation" in one or "episode" in one for one in others)
        assert not any(one["TimeLimit.truncated"] for one in others)
    assert "who" not in steps[2][3][4], "nothing is told of the dead"
    assert venv.reset_infos[4] == {"t": 0, "who": "b", "episode_number": 1}
    assert venv.dead_share == pytest.approx((2 + 1) / 12)
    venv.close()


def test_lives_after_a_death_are_counted_anew():
    venv = sb3.make(ledgers(1, dies={"b": 1}, horizon=3))
    venv.reset()
    lengths = [
        info["episode"]["l"]
        for _ in range(6)
        for info in [venv.step(np.zeros(3, int))[3][1]]
        if "episode" in info
    ]
    assert lengths == [1, 1]
    venv.close()


def test_flags_together():
    venv = sb3.make(ledgers(1, dies={"b": 2}), dead="done_together")
    venv.reset()
    steps = [venv.step(np.zeros(3, int)) for _ in range(4)]
    np.testing.assert_array_equal(
        [done for _, _, done, _ in steps], [[0] * 3, [0] * 3, [0] * 3, [1] * 3]
    )
    infos = steps[3][3]
    assert all(info["terminal_observation"].shape == (4,) for info in infos)
    assert [info["TimeLimit.truncated"] for info in infos] == [True, False, True]
    venv.close()


def test_the_share_of_the_dead_is_told_once():
    venv = sb3.make(ledgers(2, dies={"b": 1}))
    venv.reset()
    for _ in range(3):
        venv.step(np.zeros(6, int))
    with pytest.warns(UserWarning, match=r"25% of the rows .* no loss mask"):
        venv.step(np.zeros(6, int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            venv.step(np.zeros(6, int))
    venv.close()
    venv = sb3.make(ledgers(2))
    venv.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            venv.step(np.zeros(6, int))
    assert venv.dead_share == 0
    venv.close()


def test_actions_are_taken_when_they_are_given_and_results_are_the_callers():
    venv = sb3.make(ledgers(2), copy=False)
    first = venv.reset()
    kept = first.copy()
    actions = np.arange(6) % 5
    venv.step_async(actions)
    actions[:] = 4
    with pytest.raises(StateError, match="pending"):
        venv.step_async(actions)
    second, *_ = venv.step_wait()
    with pytest.raises(StateError, match="no step is pending"):
        venv.step_wait()
    assert venv.get_attr("actions", 0) == [[{"a": 0, "b": 1, "c": 2}]]
    np.testing.assert_array_equal(first, kept)
    second[:] = 7  # writable
    venv.step_async(actions)
    venv.reset()  # forgets the step
    venv.step(actions)
    venv.close()
    venv.close()
    with pytest.raises(ClosedError):
        venv.step(actions)


# ---- seeds, options, attributes ------------------------------------------------------------------


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_seeds_and_options_are_of_environments_and_used_once(options):
    venv = sb3.make(ledgers(2), **options)
    assert venv.seed(0) == [0, 0, 0, 1, 1, 1]
    venv.set_options([{"level": 0}] * 3 + [{"level": 1}] * 3)
    venv.reset()
    venv.reset()
    assert venv.get_attr("seeds", [0, 3]) == [[0, None], [1, None]]
    given = venv.get_attr("options", [0, 3])
    assert [one[0] for one in given] == [{"level": 0}, {"level": 1}]
    assert not any(one[1] for one in given)
    with pytest.raises(ConfigError, match="rows 0 and 2 are agents of one environment"):
        venv.set_options([{"level": 0}] * 2 + [{"level": 1}] * 4)
    with pytest.raises(ConfigError, match="6 of them"):
        venv.set_options([{}] * 2)
    venv.close()


def test_different_options_leave_each_environment_its_episode():
    venv = sb3.make(ledgers(3, told=told))
    venv.set_options([{"k": 0}] * 3 + [{}] * 3 + [{"k": 0}] * 3)
    seen = venv.reset()
    np.testing.assert_array_equal(seen[:, 2], 0, "each began one episode")
    np.testing.assert_array_equal(seen[:, 0], np.repeat([0, 1, 2], 3))
    assert [info["who"] for info in venv.reset_infos] == list("abc") * 3
    venv.close()


def test_unseeded_vectors_follow_numpys_generator():
    venv = sb3.make(ledgers(2))
    np.random.seed(3)  # noqa: NPY002
    first = venv.seed()
    np.random.seed(3)  # noqa: NPY002
    assert venv.seed() == first
    venv.close()


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_attributes_and_methods_by_rows(options):
    venv = sb3.make(ledgers(2), render_mode="rgb_array", **options)
    assert venv.render_mode == "rgb_array"
    assert venv.get_attr("tag") == [0, 0, 0, 1, 1, 1]
    assert venv.get_attr("tag", [4, 0, -1]) == [1, 0, 1]
    assert venv.get_attr("tag", 5) == [1]
    assert venv.get_attr("render_mode", [1]) == ["rgb_array"]
    assert venv.has_attr("horizon") and not venv.has_attr("nothing_of_that_name")
    venv.set_attr("horizon", 9, indices=[3, 4])
    assert venv.get_attr("horizon") == [4] * 3 + [9] * 3
    venv.set_attr("names", ["x", "y", "z"])
    assert venv.get_attr("names", 0) == [["x", "y", "z"]]
    venv.reset()
    states = venv.env_method("state", indices=[0, 3])
    np.testing.assert_array_equal(states, [[0, 0, 0], [1, 0, 0]])
    venv.env_method("reset", seed=4)
    assert venv.get_attr("seeds") == [[None, 4]] * 6, "once in each environment"
    assert [picture[0, 0, 0] for picture in venv.get_images()] == [0, 1]
    assert venv.render().shape == (8, 4, 3)
    with pytest.raises(ConfigError, match="from 0 to 5, got 6"):
        venv.get_attr("tag", 6)
    venv.close()


def test_methods_are_not_called_by_get_attr():
    venv = sb3.make(Pole, 2, backend="serial")
    assert [method(3) for method in venv.get_attr("double")] == [6, 6]
    assert venv.env_method("double", 3, plus=1, indices=1) == [7]
    venv.close()


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_wrappers_are_found(options):
    venv = sb3.make([POLE, functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=-1)],
                    **options)  # fmt: skip
    assert venv.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [True, False]
    assert venv.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=1) == [False]
    assert venv.env_is_wrapped(gymnasium.wrappers.OrderEnforcing) == [True, True]
    assert venv.env_is_wrapped(gymnasium.wrappers.FlattenObservation) == [False, False]
    assert venv.env_is_wrapped(Monitor) == [True, True], "its entries are there"
    venv.close()


# ---- what does not fit ------------------------------------------------------------------------


def test_what_it_cannot_hold_is_refused():
    nested = Dict({"a": Box(0, 1, (2,)), "b": Dict({"c": Box(0, 1, (1,))})})
    with pytest.raises(ConfigError, match=r"a Dict under 'b'.*flatten it"):
        sb3.make(functools.partial(Odd, observation=nested), 2)
    with pytest.raises(ConfigError, match="counts from 0"):
        sb3.make(functools.partial(Odd, action=Discrete(3, start=1)), 2)
    for name, value in (
        ("layout", "dict"), ("autoreset", "next_step"), ("autoreset_mode", "Disabled"),
        ("batch_size", 1),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"leave out '{name}'"):
            sb3.make(POLE, 2, **{name: value})
    sb3.make(POLE, 2, layout="flat", autoreset_mode="SameStep", batch_size=2).close()
    with seer.make_vec(POLE, 2) as vec, pytest.raises(ConfigError, match="autoreset='same_step'"):
        sb3.Sb3VecEnv(vec)
    with seer.make_vec(Ledger, 2) as vec, pytest.raises(ConfigError, match="layout='flat'"):
        sb3.Sb3VecEnv(vec)
    with pytest.raises(ConfigError, match="SyncVectorEnv"):
        sb3.Sb3VecEnv(gymnasium.vector.SyncVectorEnv([POLE]))


def test_gymnasiums_vector_wrappers_may_be_between():
    vec = seer.make_vec(POLE, 2, autoreset="same_step")
    venv = sb3.Sb3VecEnv(gymnasium.wrappers.vector.ClipReward(vec, -0.5, 0.5))
    venv.reset()
    assert venv.step(np.zeros(2, int))[1].tolist() == [0.5, 0.5]
    venv.close()


# ---- its tools on top -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.filterwarnings("ignore:.*no loss mask:UserWarning")
def test_learns_saves_and_loads(algorithm, tmp_path):
    venv = sb3.make(ledgers(2, dies={"b": 2}, horizon=6))
    scaled = VecNormalize(venv, gamma=0.9)
    model = algorithm("MlpPolicy", scaled, n_steps=16, seed=1, device="cpu")
    model.learn(300)
    lengths = {episode["l"] for episode in model.ep_info_buffer}
    assert lengths == {2, 6}, "lives, without the time after a death"
    model.save(tmp_path / "model")
    scaled.save(str(tmp_path / "scale"))
    again = algorithm.load(tmp_path / "model", VecNormalize.load(str(tmp_path / "scale"), venv))
    seen = scaled.reset()
    np.testing.assert_array_equal(
        again.predict(seen, deterministic=True)[0], model.predict(seen, deterministic=True)[0]
    )
    again.learn(100)
    venv.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no loss mask:UserWarning")
def test_evaluation_counts_lives(tmp_path):
    venv = sb3.make(ledgers(2, dies={"b": 2}))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=24, device="cpu")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*Monitor.*")
        _, lengths = evaluate_policy(model, venv, 12, return_episode_rewards=True)
    assert sorted(lengths) == [2] * 4 + [4] * 8
    callback = EvalCallback(venv, n_eval_episodes=6, eval_freq=8, log_path=str(tmp_path), verbose=0)
    model.learn(200, callback=callback)
    assert len(callback.evaluations_length) >= 2
    venv.close()


def test_monitor_of_vectors(tmp_path):
    venv = VecMonitor(sb3.make(ledgers(2)), str(tmp_path / "log"))
    venv.reset()
    for _ in range(4):
        *_, infos = venv.step(np.zeros(6, int))
    assert [info["episode"]["r"] for info in infos] == [10, 50, 90, 410, 450, 490]
    venv.close()


@pytest.mark.slow
def test_dict_observations_with_masks():
    venv = sb3.make(functools.partial(Masked, where="observation"), 2)
    seen = venv.reset()
    assert seen["observation"].shape == (6, 4) and seen["action_mask"].shape == (6, 5)
    for _ in range(4):
        seen, _, dones, infos = venv.step(seen["action_mask"].argmax(1))
    assert dones.all()
    np.testing.assert_array_equal(infos[0]["terminal_observation"]["observation"], [0, 0, 0, 4])
    np.testing.assert_array_equal(infos[0]["terminal_observation"]["action_mask"], [0, 0, 0, 0, 1])
    venv.close()


@pytest.mark.slow
def test_native_worlds_as_rows():
    venv = sb3.make("uav_swarm_v0", 3, task="rendezvous", drones=4, horizon=5, shared=False)
    venv.seed(1)
    first = venv.reset()
    assert venv.num_envs == 12 and first.shape[0] == 12
    assert venv.env_is_wrapped(gymnasium.Wrapper) == [False] * 12
    for _ in range(5):
        _, rewards, dones, infos = venv.step(np.zeros((12, 3), np.float32))
    assert dones.all() and rewards.dtype == np.float32
    assert all(info["TimeLimit.truncated"] and info["episode"]["l"] == 5 for info in infos)
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=96, device="cpu")
    model.learn(400)
    venv.close()


@pytest.mark.slow
def test_turn_based_games_are_a_row_each():
    tictactoe_v3 = pytest.importorskip(
        "pettingzoo.classic.tictactoe_v3", reason="needs pip install pygame"
    )
    venv = sb3.make(tictactoe_v3.env, 3, backend="serial")
    seen, rng, ended = venv.reset(), np.random.default_rng(0), []
    assert venv.num_envs == 3 and venv.env_is_wrapped(gymnasium.Wrapper) == [False] * 3
    for _ in range(40):
        actions = [rng.choice(np.flatnonzero(mask)) for mask in seen["action_mask"]]
        seen, rewards, dones, infos = venv.step(np.array(actions))
        for row in np.flatnonzero(dones).tolist():
            info = infos[row]
            assert info["final_agent"] in ("player_1", "player_2")
            (other,) = info["others"].values()
            assert other["reward"] == -rewards[row] == -info["episode"]["r"]
            assert "others" not in venv.reset_infos[row]
            ended.append(info["episode"]["l"])
    assert len(ended) > 10 and all(3 <= length <= 5 for length in ended)
    venv.close()
