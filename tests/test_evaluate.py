import numpy as np
import pytest
from gymnasium import spaces
from test_env import Choosers, Walkers

import seer
from seer.env import ParallelEnv
from seer.errors import ConfigError
from seer.evaluate import interquartile_mean, interval, random_policy, rollout


def right(observations):
    """Everybody walks to the right; the first one fastest."""
    actions = np.zeros((*observations.shape[:2], 2), np.float32)
    actions[..., 0] = np.linspace(1.0, 0.2, observations.shape[1])
    return actions


def by_name(observations):
    n = {"walker_0": 1.0, "walker_1": 0.6, "walker_2": 0.2}
    return {a: np.array([n[a], 0.0], np.float32) for a in observations}


def stand(observations):
    return np.zeros((*observations.shape[:2], 2), np.float32)


class Foreign:
    """A PettingZoo environment of somebody else, as far as `evaluate` can tell."""

    def __init__(self, env):
        self._env = env
        self.reset, self.step, self.action_space = env.reset, env.step, env.action_space

    @property
    def agents(self):
        return self._env.agents


def make(**params):
    return ParallelEnv(Walkers(**params), horizon=8, compiled=False)


def test_evaluate_worlds_side_by_side_equal_the_plain_loop():
    found = seer.evaluate(make(), right, episodes=7, seed=3)
    plain = rollout(make(), by_name, 7, 3)
    np.testing.assert_allclose(found.returns, plain.returns, rtol=1e-6)
    assert found.mean_length == plain.lengths.mean()
    assert found.survival == pytest.approx(plain.survival.mean())
    assert found.mean_return == pytest.approx(np.mean(found.returns))
    # walker_0 dies in step 3 at 3.0, walker_1 in step 5 at 3.0, walker_2 is cut off at step 8
    earned = sum([1, 2, 3]) + 0.6 * sum(range(1, 6)) + 0.2 * sum(range(1, 9))
    assert found.mean_return == pytest.approx(earned / 3)


class Lasting(seer.EventModel):
    """Declares no `terminated`: who dies is done."""

    groups = {"sheep": 2}
    agents = "sheep"
    go = seer.action("f4", 1)
    sight = seer.observation("f4", 1)
    earned = seer.reward()

    @staticmethod
    def action_space(p):
        return spaces.Box(-1.0, 1.0, (1,), np.float32)

    @seer.sweep(at="end")
    def work(ctx, s, i):
        s.earned[i] = 1.0
        if i == 1 and ctx.step == 2:
            s.alive[i] = 0


def test_evaluate_model_that_declares_no_terminated():
    env = ParallelEnv(Lasting, horizon=8, compiled=False)
    found = seer.evaluate(env, "random", episodes=2, seed=0)
    plain = rollout(env, "random", 2, 0)
    assert found.mean_return == plain.returns.mean() == pytest.approx((8 + 3) / 2)
    assert found.survival == 0.5


class Mute(Lasting):
    """Declares no reward either."""

    earned = None

    @seer.sweep(at="end")
    def work(ctx, s, i):
        s.sight[i, 0] = 1.0


def test_evaluate_model_that_declares_no_reward():
    env = ParallelEnv(Mute, horizon=8, compiled=False)
    assert seer.evaluate(env, "random", episodes=2, seed=0).mean_return == 0.0


def test_evaluate_every_episode_counts_once():
    """Short episodes must not count more often, however the worlds are batched."""
    seen = []

    class Env(Foreign):
        def __init__(self, env):
            super().__init__(env)
            self.reset = lambda seed: (seen.append(seed), env.reset(seed=seed))[1]

    seer.evaluate(Env(make()), "random", episodes=5, seed=10)
    assert seen == [10, 11, 12, 13, 14]


def test_evaluate_random_does_not_depend_on_the_number_of_episodes():
    few = seer.evaluate(make(), "random", episodes=3, seed=0)
    many = seer.evaluate(make(), "random", episodes=60, seed=0)
    assert many.returns[:3] == few.returns
    assert len(set(many.returns)) == 60


def test_evaluate_scores_between_random_and_heuristic():
    env = make(limit=1e9)
    best = seer.evaluate(env, right, episodes=10, heuristic=right)
    assert best.score == pytest.approx(1.0)
    assert best.heuristic_return == pytest.approx(best.mean_return)
    chance = seer.evaluate(env, "random", episodes=10, heuristic=right)
    assert chance.score == pytest.approx(0.0)
    half = seer.evaluate(env, stand, episodes=10, baselines=(-4.0, 4.0))
    assert (half.score, half.iqm_score, half.score_interval) == (0.5, 0.5, (0.5, 0.5))
    assert seer.evaluate(env, stand, episodes=2).score is None


def test_evaluate_leaves_the_environment_as_it_is():
    env = make()
    env.reset(seed=1)
    env.step({a: np.ones(2, np.float32) for a in env.agents})
    before = env.state()
    seer.evaluate(env, right, episodes=2)
    np.testing.assert_array_equal(env.state(), before)


def test_evaluate_choices():
    env = ParallelEnv(Choosers(limit=1e9), horizon=4, compiled=False)
    found = seer.evaluate(env, "random", episodes=20, seed=0)
    assert -2.0 < found.mean_return < 2.0
    up = seer.evaluate(env, lambda o: np.ones(o.shape[:2], np.int64), episodes=2)
    assert up.mean_return == 1 + 2 + 3 + 4


def test_evaluate_as_dict_is_plain():
    import json

    found = seer.evaluate(make(), right, episodes=2).as_dict()
    assert json.loads(json.dumps(found))["episodes"] == 2


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"episodes": 0}, "episodes must be a whole number from 1, got 0"),
        ({"episodes": 2.0}, "episodes must be"),
        ({"seed": -1}, "seed must be a whole number from 0, got -1"),
        ({"policy": 3}, "must be a name or callable, got int"),
        ({"policy": "clever"}, r"no policy 'clever' \(known: random\)"),
    ],
)
def test_evaluate_refuses(kwargs, text):
    with pytest.raises(ConfigError, match=text):
        seer.evaluate(make(), **{"policy": "random", **kwargs})


def test_evaluate_needs_a_horizon():
    env = ParallelEnv(Walkers(), horizon=None, compiled=False)
    with pytest.raises(ConfigError, match="has no horizon"):
        seer.evaluate(env, right)


def test_evaluate_wrong_number_of_actions():
    with pytest.raises(ValueError, match=r"expected actions of shape \(2, 3, 2\)"):
        seer.evaluate(make(), lambda o: o[:, :1], episodes=2)


def test_interquartile_mean_leaves_out_a_quarter_at_either_end():
    assert interquartile_mean([1000.0, 1, 2, 3, 4, 5, 6, -1000]) == 3.5
    assert interquartile_mean([5.0]) == 5.0
    assert interquartile_mean([1.0, 2.0, 6.0]) == 3.0


def test_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for k in range(200):
        low, high = interval(rng.normal(3.0, 1.0, 40), seed=k)
        hits += low <= 3.0 <= high
    assert 175 <= hits <= 199
    assert interval([2.0, 2.0]) == (2.0, 2.0)
    with pytest.raises(ConfigError, match="at least one finite"):
        interval([])


@pytest.mark.parametrize(
    "space",
    [spaces.Box(-2.0, 3.0, (3,)), spaces.Discrete(4, start=2), spaces.MultiDiscrete([2, 5, 9])],
)
def test_random_policy_stays_in_the_space(space):
    shape = (2, 5, *(space.shape or (1,)))
    act = random_policy(space, shape, np.array([4, 5]))
    for _ in range(20):
        actions = act(None)
        assert actions.shape == shape
        for row in actions.reshape(10, *shape[2:]):
            assert space.contains(row if space.shape else row.item())


def test_random_policy_unbounded_box_is_refused():
    with pytest.raises(ConfigError, match="bounded"):
        random_policy(spaces.Box(-np.inf, np.inf, (1,)), (1, 1, 1), np.array([0]))
