"""A model as a PettingZoo environment, with small models run as plain Python."""

import copy
import pickle
import types
import warnings

import cloudpickle
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test

import seer
from seer.env import ParallelEnv
from seer.errors import (
    ActionError,
    ClosedError,
    ConfigError,
    HandlerError,
    ModelError,
    StateError,
    UnknownAgentError,
)


class Walkers(seer.EventModel):
    """Walk along a line; who passes the limit dies. Entity `fails` breaks in step `fails_at`."""

    walkers = seer.param(3, low=0)
    limit = seer.param(2.5)
    fails_at = seer.param(-1)
    groups = {"walker": "walkers", "wall": 1}
    agents = "walker"
    step = 0.1
    x = seer.column("f8", published=True, of="walker")
    go = seer.action("f4", 2)
    sight = seer.observation("f4", 2)
    earned = seer.reward()
    over = seer.terminated()

    @staticmethod
    def action_space(p):
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    @seer.sweep(at="end", over="walker")
    def walk(ctx, s, i):
        s.x[i] += s.go[i, 0] + 0.5 * s.go[i, 1]
        s.earned[i] = s.x[i]
        if s.x[i] > s.p.limit:
            s.alive[i] = 0
            s.over[i] = 1
        if ctx.step == s.p.fails_at and i == 1:
            ctx.fail(7)

    @seer.sweep(at="end", over="walker", include="acted", on_reset=True)
    def look(ctx, s, i):
        s.sight[i, 0] = s.x[i]
        s.sight[i, 1] = ctx.uniform()


class Choosers(Walkers):
    """The same, choosing one of three moves, from -1."""

    go = seer.action("i4")

    @staticmethod
    def action_space(p):
        return spaces.Discrete(3, start=-1)

    @seer.sweep(at="end", over="walker")
    def walk(ctx, s, i):
        s.x[i] += s.go[i]
        s.earned[i] = s.x[i]


class Pickers(Choosers):
    """The same, with two choices at once."""

    go = seer.action("i8", 2)

    @staticmethod
    def action_space(p):
        return spaces.MultiDiscrete([2, 3])

    @seer.sweep(at="end", over="walker")
    def walk(ctx, s, i):
        s.x[i] += s.go[i, 0] - s.go[i, 1]


class Machine(seer.EventModel):
    """No agents."""

    groups = {"part": 2}


def walkers(horizon=10, **kwargs):
    options = {k: kwargs.pop(k) for k in ("strict_actions", "name") if k in kwargs}
    return ParallelEnv(Walkers(**kwargs), horizon=horizon, compiled=False, **options)


def act(env, *values):
    """One action for each live agent."""
    return {a: np.array(v, np.float32) for a, v in zip(env.agents, values, strict=True)}


def still(env):
    return {agent: np.zeros(2, np.float32) for agent in env.agents}


# ---- an episode ------------------------------------------------------------------------------


def test_step_moves_everybody_and_truncates_at_the_horizon():
    env = walkers(horizon=2, limit=100.0)
    observations, infos = env.reset(seed=1)
    assert list(observations) == list(infos) == ["walker_0", "walker_1", "walker_2"]
    for last in (False, True):
        result = env.step(act(env, (1, 0), (0, 1), (-1, 0)))
        assert [list(part) for part in result] == [env.possible_agents] * 5
        observations, rewards, terminations, truncations, infos = result
        assert all(type(r) is float for r in rewards.values())
        assert all(type(t) is bool for t in terminations.values())
        assert set(truncations.values()) == {last}
        assert not any(terminations.values())
    assert list(rewards.values()) == [2.0, 1.0, -2.0]
    assert [o[0] for o in observations.values()] == [2.0, 1.0, -2.0]
    assert env.agents == []
    assert all(info == {} for info in infos.values())
    assert len({id(info) for info in infos.values()}) == 3


def test_step_dying_agent_gets_its_last_values_once_and_never_comes_back():
    env = walkers()
    env.reset(seed=1)
    for _ in range(2):
        env.step(act(env, (1, 0), (1, 0), (0, 0)))
    observations, rewards, terminations, truncations, _ = env.step(act(env, (1, 0), (0, 0), (0, 0)))
    assert terminations == {"walker_0": True, "walker_1": False, "walker_2": False}
    assert not any(truncations.values())
    assert (rewards["walker_0"], observations["walker_0"][0]) == (3.0, 3.0)
    assert env.agents == ["walker_1", "walker_2"]
    while env.agents:
        result = env.step(still(env))
        assert [list(part) for part in result] == [["walker_1", "walker_2"]] * 5
    env.reset()
    assert env.agents == env.possible_agents


def test_step_last_death_ends_the_episode():
    env = walkers(limit=0.5)
    env.reset(seed=0)
    _, _, terminations, truncations, _ = env.step(act(env, (1, 0), (1, 0), (1, 0)))
    assert (set(terminations.values()), set(truncations.values())) == ({True}, {False})
    assert env.agents == []


def test_step_death_at_the_horizon_is_a_termination():
    env = walkers(horizon=1, limit=0.5)
    env.reset(seed=0)
    _, _, terminations, truncations, _ = env.step(act(env, (1, 0), (0, 0), (0, 0)))
    assert list(terminations.values()) == [True, False, False]
    assert list(truncations.values()) == [False, True, True]


def test_step_observations_stay_what_they_were():
    env = walkers()
    first, _ = env.reset(seed=0)
    kept = {a: o.copy() for a, o in first.items()}
    second = env.step(act(env, (1, 0), (1, 0), (1, 0)))[0]
    assert all((first[a] == kept[a]).all() for a in kept)
    assert all((second[a] != first[a]).any() for a in kept)


def test_step_actions_are_found_by_name_and_left_alone():
    env = walkers()
    env.reset(seed=0)
    actions = {f"walker_{k}": np.array([k / 2, 5.0], np.float32) for k in (2, 0, 1)}
    before = {a: v.copy() for a, v in actions.items()}
    rewards = env.step(actions)[1]
    assert list(rewards.values()) == [0.5, 1.0, 1.5]
    assert all((actions[a] == before[a]).all() for a in actions)
    assert list(actions) == list(before)


@pytest.mark.parametrize("seed", [0, 5])
def test_reset_same_seed_gives_the_same_numbers(seed):
    one, two = walkers(), walkers()
    a, b = one.reset(seed=seed)[0], two.reset(seed=seed)[0]
    assert all((a[k] == b[k]).all() for k in a)
    a, b = one.reset()[0], two.reset()[0]
    assert all((a[k] == b[k]).all() for k in a)
    assert any((a[k] != one.reset(seed=seed)[0][k]).any() for k in a)


def test_reset_options_horizon_is_for_one_episode():
    env = walkers(horizon=5)
    for options, steps in (({"horizon": 2}, 2), (None, 5)):
        env.reset(seed=0, options=options)
        for _ in range(steps):
            assert env.agents
            env.step(still(env))
        assert not env.agents


def test_reset_unknown_options_warn():
    with pytest.warns(UserWarning, match=r"unknown reset options \['colour', 3\]"):
        walkers().reset(options={"colour": "red", 3: 4})


@pytest.mark.parametrize("options", [3, [1], {"horizon": 0}, {"horizon": "long"}])
def test_reset_bad_options_raise(options):
    with pytest.raises(ConfigError, match=r"options|horizon"):
        walkers().reset(options=options)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_reset_bad_seed_raises(seed):
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        walkers().reset(seed=seed)


def test_state_lists_published_columns():
    env = walkers()
    env.reset(seed=0)
    env.step(act(env, (1, 0), (0, 1), (0, 0)))
    state = env.state()
    assert state.dtype == np.float32
    assert env.state_space.contains(state)
    np.testing.assert_array_equal(state, [1, 1, 1, 1, 1.0, 0.5, 0.0])


# ---- PettingZoo's own tests --------------------------------------------------------------------


@pytest.mark.parametrize("model", [Walkers, Choosers, Pickers])
def test_pettingzoo_api_and_seeds(model):
    def make():
        return ParallelEnv(model(limit=2.0), horizon=30, compiled=False)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*unknown reset options.*")
        parallel_api_test(make(), 100)
        parallel_seed_test(make, 100)


def test_spaces_are_the_same_objects_and_each_agents_own():
    env = walkers()
    assert env.action_space("walker_1") is env.action_space("walker_1")
    assert env.observation_space("walker_1") is env.observation_spaces["walker_1"]
    assert env.action_space("walker_0") is not env.action_space("walker_1")
    assert len(env.action_spaces) == 3
    with pytest.raises(UnknownAgentError, match="no agent 'walker_3'"):
        env.action_space("walker_3")


# ---- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ((np.nan, 0), r"walker_1.*finite.*nan"),
        ((0, -np.inf), r"walker_1.*finite.*inf"),
        ((0, 0, 0), r"'walker_1': expected shape \(2,\), got \(3,\)"),
        (0.0, r"'walker_1': expected shape \(2,\), got \(\)"),
        ([[0, 0]], r"'walker_1': expected shape \(2,\), got \(1, 2\)"),
        (None, "'walker_1' is None"),
        (np.array(["a", "b"]), "'walker_1': expected real numbers, got dtype <U1"),
        (np.array([1j, 0]), "'walker_1': expected real numbers, got dtype complex128"),
    ],
)
def test_step_bad_action_names_the_agent_and_nothing_moves(bad, text):
    env = walkers()
    env.reset(seed=0)
    actions = still(env)
    actions["walker_1"] = bad if bad is None or np.ndim(bad) == 0 else np.asarray(bad)
    with pytest.raises(ActionError, match=text) as caught:
        env.step(actions)
    assert caught.value.agent == "walker_1"
    assert isinstance(caught.value, ValueError)
    rewards = env.step(act(env, (1, 0), (1, 0), (1, 0)))[1]
    assert list(rewards.values()) == [1.0, 1.0, 1.0]


def test_step_swapped_lengths_are_found():
    env = walkers()
    env.reset(seed=0)
    actions = still(env)
    actions["walker_0"], actions["walker_2"] = np.zeros(3, np.float32), np.zeros(1, np.float32)
    with pytest.raises(ActionError, match=r"'walker_0': expected shape \(2,\), got \(3,\)"):
        env.step(actions)


def test_step_out_of_range_is_clipped_and_counted():
    env = walkers(limit=100.0)
    env.reset(seed=0)
    rewards = env.step(act(env, (7, 0), (-3, 0), (0.5, 0)))[1]
    assert list(rewards.values()) == [1.0, -1.0, 0.5]
    assert env.clipped_actions == 2
    env.reset()
    assert env.clipped_actions == 0


def test_step_out_of_range_strict_raises():
    env = walkers(strict_actions=True)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"walker_1.*from -1.* to 1"):
        env.step(act(env, (1, 0), (1.5, 0), (0, 0)))


def test_step_missing_surplus_and_unknown_agents():
    env = walkers()
    env.reset(seed=0)
    good = act(env, (1, 0), (1, 0), (1, 0))
    with pytest.raises(ActionError, match=r"no action for 'walker_2'.*3 expected, 2 came"):
        env.step({a: good[a] for a in ("walker_0", "walker_1")})
    with pytest.raises(UnknownAgentError, match=r"'walker_9'.*does not exist; did you mean"):
        env.step({**good, "walker_9": good["walker_0"]})
    with pytest.raises(UnknownAgentError, match=r"walkr_1.*did you mean 'walker_1'") as caught:
        env.step({"walker_0": 0, "walkr_1": 0, "walker_2": 0})
    assert isinstance(caught.value, KeyError)
    for _ in range(3):
        env.step({**act(env, (1, 0), (0, 0), (0, 0))})
    with pytest.raises(ActionError, match="an action for 'walker_0', which is dead"):
        env.step(good)
    with pytest.raises(ActionError, match="must be a dict of agent to action, got list"):
        env.step([good["walker_0"]])


@pytest.mark.parametrize(
    ("model", "bad", "text"),
    [
        (Choosers, 2, "expected -1 to 1, got 2"),
        (Choosers, -2, "expected -1 to 1, got -2"),
        (Choosers, 2**40, "expected -1 to 1, got"),
        (Choosers, 0.5, "expected whole numbers, got dtype float64"),
        (Choosers, [0], r"expected shape \(\), got \(1,\)"),
        (Pickers, [0, 3], r"expected \[0, 0\] to \[1, 2\], got \[0, 3\]"),
        (Pickers, [0.0, 1.0], "expected whole numbers, got dtype float64"),
    ],
)
def test_step_bad_choice_names_the_agent(model, bad, text):
    env = ParallelEnv(model(), compiled=False)
    env.reset(seed=0)
    actions = {a: env.action_space(a).sample() for a in env.agents}
    env.step(actions)
    with pytest.raises(ActionError, match=f"walker_1.*{text}"):
        env.step({**actions, "walker_1": bad})


def test_calls_out_of_order():
    env = walkers(horizon=1)
    with pytest.raises(StateError, match="step before reset"):
        env.step({})
    with pytest.raises(StateError, match="state before reset"):
        env.state()
    env.reset(seed=0)
    env.step(still(env))
    with pytest.raises(StateError, match="ended after 1 steps; call reset"):
        env.step({})
    env.close()
    env.close()
    for call in (lambda: env.step({}), env.reset, env.state, env.render):
        with pytest.raises(ClosedError, match="after close"):
            call()


def test_fault_in_the_model_leaves_reset_legal():
    env = walkers(fails_at=1)
    env.reset(seed=0)
    env.step(still(env))
    with pytest.raises(HandlerError, match="walk") as caught:
        env.step(still(env))
    assert (caught.value.entity, caught.value.user_code) == (1, 7)
    with pytest.raises(StateError):
        env.step(still(env))
    env.reset()
    env.step(still(env))


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"render_mode": "ansi"}, "render_mode must be"),
        ({"render_mode": "rgb_array"}, "there is no renderer"),
        ({"state_columns": ["y"]}, "'y', which is no column"),
        ({"pool": 3}, "pool"),
    ],
)
def test_constructor_refuses(kwargs, text):
    with pytest.raises(ConfigError, match=text):
        ParallelEnv(Walkers(), compiled=False, **kwargs)


def test_constructor_needs_agents():
    with pytest.raises(ConfigError, match="declares no action"):
        ParallelEnv(Machine)
    with pytest.raises(ConfigError, match="has no agents"):
        ParallelEnv(Walkers(walkers=0))
    with pytest.raises(ConfigError, match=r"expected a seer\.EventModel, got str"):
        ParallelEnv("Walkers")


def test_render_without_a_mode_warns():
    env = walkers()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render needs render_mode"):
        assert env.render() is None


def test_repr_tells_what_and_how_far():
    env = walkers(name="walk_v0")
    assert str(env) == "walk_v0"
    assert "walk_v0: 3 agents, 0 alive, horizon 10" in repr(env)


# ---- copies and pickles ----------------------------------------------------------------------


def to_the_right(env):
    return {agent: np.array([0.3, 0.1 * k], np.float32) for k, agent in enumerate(env.agents)}


@pytest.mark.parametrize("steps", [0, 3, 5])
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e)),
     lambda e: cloudpickle.loads(cloudpickle.dumps(e))],
    ids=["deepcopy", "pickle", "cloudpickle"],
)  # fmt: skip
def test_copy_goes_on_to_the_bit_where_the_original_is(copied, steps):
    env = ParallelEnv(Walkers(limit=1.5), horizon=8, compiled=False)
    env.reset(seed=3)
    env.action_space("walker_0").seed(1)
    for _ in range(steps):
        env.step(to_the_right(env))
    other = copied(env)
    assert other.agents == env.agents and repr(other) == repr(env)
    np.testing.assert_array_equal(
        other.action_space("walker_0").sample(), env.action_space("walker_0").sample()
    )
    while env.agents:
        ours, theirs = env.step(to_the_right(env)), other.step(to_the_right(other))
        assert ours[1:] == theirs[1:]
        for agent, seen in ours[0].items():
            np.testing.assert_array_equal(seen, theirs[0][agent])
    assert other.agents == []


def test_copy_of_one_that_never_began_or_was_closed_is_the_same():
    env = ParallelEnv(Walkers, horizon=8, compiled=False)
    with pytest.raises(StateError, match="before reset"):
        pickle.loads(pickle.dumps(env)).step({})
    env.close()
    with pytest.raises(ClosedError):
        pickle.loads(pickle.dumps(env)).reset()


def test_class_that_no_module_holds_is_pickled_by_value():
    space = {"__name__": "__main__", "seer": seer, "Walkers": Walkers}
    body = "class Mine(seer.EventModel):\n    groups = {'a': 3}\n    x = seer.column('f8')\n"
    exec(body, space)
    model = cloudpickle.loads(cloudpickle.dumps(space["Mine"]()))
    assert model.spec.entities == 3
    with pytest.raises(ConfigError, match="no parameter 'n'"):
        type(model)(n=3)


def test_class_without_content_cannot_be_built():
    with pytest.raises(ModelError, match="groups must name the entities"):
        types.new_class("Empty", (seer.EventModel,))()
