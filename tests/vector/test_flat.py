"""The layout flat: Gymnasium's vector form, and rows of agents that share an environment."""

import copy
import functools
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers
from pettingzoo import ParallelEnv
from vector_plain import same

import seer
from seer.errors import ActionError, ConfigError, StateError
from seer.vector.cells import ParallelCell
from seer.vector.contract import VecSpec, group_agents
from seer.vector.flat import flat_env
from seer.vector.serial import Serial

from .test_aec import Turns
from .test_vector_contract import Alone
from .worlds import Ledger, Masked

MODES = [mode.value for mode in AutoresetMode]
BACKENDS = [{"backend": "serial"}, {"backend": "process"}, {"workers": 2}]
POLE = functools.partial(gymnasium.make, "CartPole-v1")
PENDULUM = functools.partial(gymnasium.make, "Pendulum-v1", max_episode_steps=25)
FACTORIES = {
    "pole": POLE, "pendulum": PENDULUM, "nested": Alone,
    "words": functools.partial(Alone, words=True),
}  # fmt: skip


def exactly(got, want):
    """Equal in value, type, dtype and shape."""
    same(got, want)
    if isinstance(want, dict):
        for key in want:
            exactly(got[key], want[key])
    elif isinstance(want, tuple):
        assert type(got) is tuple
        for a, b in zip(got, want, strict=True):
            exactly(a, b)
    else:
        assert type(got) is type(want)
        if isinstance(want, np.ndarray):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)


# ---- as Gymnasium's own -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: "-".join(map(str, b.values())))
def test_equals_sync_vector_env_step_by_step(backend, name, mode):
    fns = [FACTORIES[name]] * 3
    mine = seer.make_vec(fns, autoreset=mode, **backend)
    its = SyncVectorEnv(fns, autoreset_mode=mode)
    assert mine.single_observation_space == its.single_observation_space
    assert mine.single_action_space == its.single_action_space
    assert mine.observation_space == its.observation_space
    assert mine.action_space == its.action_space
    assert (mine.metadata, mine.num_envs) == (its.metadata, its.num_envs)
    exactly(mine.reset(seed=[5, 0, 9]), its.reset(seed=[5, 0, 9]))
    assert mine.np_random_seed == its.np_random_seed == (5, 0, 9)
    its.action_space.seed(1)
    ends = 0
    for t in range(300):
        actions = its.action_space.sample()
        got, want = mine.step(actions), its.step(actions)
        exactly(got, want)
        over = want[2] | want[3]
        ends += over.sum()
        if mode == "Disabled" and over.any():
            options = {"reset_mask": over.copy()}
            exactly(mine.reset(options=options), its.reset(options=dict(options)))
            same(options, {"reset_mask": over})
        if t == 120:
            exactly(mine.reset(), its.reset())
        if t == 200:
            exactly(mine.reset(seed=0, options={}), its.reset(seed=0, options={}))
    assert ends > 10
    mine.close()
    mine.close()
    assert mine.closed
    its.close()


def test_sampling_a_seeded_space_repeats():
    drawn = []
    for _ in range(2):
        with seer.make_vec("CartPole-v1", num_envs=5) as vec:
            vec.action_space.seed(4)
            drawn.append([vec.action_space.sample().tolist() for _ in range(9)])
    assert drawn[0] == drawn[1]


def test_environments_may_differ_in_bounds():
    class Wide(gymnasium.Env):
        def __init__(self, top):
            self.observation_space = Box(-top, top, (2,), np.float32)
            self.action_space = Box(-top, top, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.repeat(action, 2), 0.0, False, False, {}

    fns = [functools.partial(Wide, 1.0), functools.partial(Wide, 3.0)]
    with seer.make_vec(fns, backend="serial") as vec:
        assert vec.observation_space.high.tolist() == [[1, 1], [3, 3]]
        assert vec.action_space.high.tolist() == [[1], [3]]
        assert vec.env_spaces[1]["agent_0"][0].high.tolist() == [3, 3]
        vec.reset(seed=0)
        vec.step(vec.sample_actions())


class Painted(gymnasium.Env):
    """Observes a picture, shows another."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None):
        self.render_mode, self.t = render_mode, 0
        self.observation_space = Box(0, 255, (16, 16, 3), np.uint8)
        self.action_space = Box(-2, 2, (2,), np.float32)

    def look(self):
        return np.full((16, 16, 3), self.t, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        assert np.abs(action).max() <= 2
        self.t += 1
        return self.look(), float(action.sum()), self.t == 5, False, {"t": self.t}

    def render(self):
        return np.full((8, 8, 3), self.t, np.uint8)


def wide(spaces):
    return Box(-np.inf, np.inf, spaces.shape, np.float32)


WRAPPED = {
    "RecordEpisodeStatistics": (POLE, wrappers.RecordEpisodeStatistics),
    "DictInfoToList": (POLE, wrappers.DictInfoToList),
    "NormalizeObservation": (POLE, wrappers.NormalizeObservation),
    "NormalizeReward": (POLE, wrappers.NormalizeReward),
    "ClipReward": (PENDULUM, functools.partial(wrappers.ClipReward, min_reward=-1)),
    "TransformReward": (POLE, functools.partial(wrappers.TransformReward, func=lambda r: 2 * r)),
    "VectorizeTransformReward": (
        POLE,
        lambda env: wrappers.VectorizeTransformReward(
            env, gymnasium.wrappers.TransformReward, func=lambda r: r + 1
        ),
    ),
    "ClipAction": (PENDULUM, wrappers.ClipAction),
    "RescaleAction": (
        PENDULUM, functools.partial(wrappers.RescaleAction, min_action=-1.0, max_action=1.0)
    ),
    "TransformAction": (
        PENDULUM, functools.partial(wrappers.TransformAction, func=lambda a: np.clip(a, -1, 1))
    ),
    "VectorizeTransformAction": (
        PENDULUM,
        lambda env: wrappers.VectorizeTransformAction(
            env, gymnasium.wrappers.TransformAction, func=lambda a: a / 2,
            action_space=env.single_action_space,
        ),
    ),
    "TransformObservation": (
        POLE, functools.partial(wrappers.TransformObservation, func=lambda o: o * 2)
    ),
    "VectorizeTransformObservation": (
        POLE,
        lambda env: wrappers.VectorizeTransformObservation(
            env, gymnasium.wrappers.TransformObservation, func=lambda o: o * 2,
            observation_space=env.single_observation_space,
        ),
    ),
    "FilterObservation": (Alone, functools.partial(wrappers.FilterObservation, filter_keys=["a"])),
    "FlattenObservation": (Alone, wrappers.FlattenObservation),
    "DtypeObservation": (POLE, functools.partial(wrappers.DtypeObservation, dtype=np.float64)),
    "ReshapeObservation": (POLE, functools.partial(wrappers.ReshapeObservation, shape=(2, 2))),
    "RescaleObservation": (
        Painted, functools.partial(wrappers.RescaleObservation, min_obs=0, max_obs=1)
    ),
    "GrayscaleObservation": (Painted, wrappers.GrayscaleObservation),
    "ResizeObservation": (Painted, functools.partial(wrappers.ResizeObservation, shape=(8, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPED)
def test_every_wrapper_of_gymnasium_works_as_on_its_own(name):
    if name == "ResizeObservation":
        pytest.importorskip("cv2")
    factory, wrap = WRAPPED[name]
    mine = wrap(seer.make_vec([factory] * 3, backend="serial"))
    its = wrap(SyncVectorEnv([factory] * 3))
    assert mine.observation_space == its.observation_space
    its.action_space.seed(3)
    same(mine.reset(seed=3), its.reset(seed=3))
    for _ in range(80):
        actions = its.action_space.sample()
        got, want = mine.step(copy.deepcopy(actions)), its.step(actions)  # some write into them
        for infos in (got[4], want[4]):
            if "episode" in infos:
                infos["episode"].pop("t")
        same(got, want)
    mine.close()


def test_no_wrapper_of_gymnasium_was_forgotten():
    tensors = {"ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch"}
    seen = {"RecordVideo", "HumanRendering"}
    assert set(wrappers.__all__) <= WRAPPED.keys() | tensors | seen


def test_videos_are_recorded(tmp_path):
    pytest.importorskip("moviepy")
    vec = seer.make_vec([Painted] * 4, backend="serial", render_mode="rgb_array")
    vec = wrappers.RecordVideo(vec, str(tmp_path), episode_trigger=lambda k: True)
    vec.reset(seed=0)
    for _ in range(12):
        vec.step(vec.action_space.sample())
    vec.close()
    assert list(tmp_path.glob("*.mp4"))


def test_pictures_one_for_each_environment():
    with seer.make_vec([Painted] * 3, backend="serial", render_mode="rgb_array") as vec:
        vec.reset(seed=0)
        vec.step(vec.sample_actions())
        pictures = vec.render()
        assert isinstance(pictures, tuple)
        assert [picture.shape for picture in pictures] == [(8, 8, 3)] * 3
        assert all((picture == 1).all() for picture in pictures)


# ---- rows of agents ---------------------------------------------------------------------------


def rows(**options):
    made = options.pop("made", {"dies": {"a": 2}, "born": {"c": 2}})
    fns = [functools.partial(Ledger, tag=tag, **made) for tag in (1, 2)]
    return seer.make_vec(fns, layout="flat", backend="serial", **options)


def test_a_flag_is_raised_once_and_the_row_waits():
    with rows() as vec:
        assert (vec.num_envs, vec.num_worlds, vec.agents_per_world) == (6, 2, 3)
        vec.reset(seed=0)
        flags = np.zeros(6, int)
        for t in range(1, 5):
            obs, rewards, terms, truncs, infos = vec.step(np.zeros(6, int))
            flags += terms | truncs
            waits = t > 2
            assert bool((obs[0] == 0).all()) is waits
            assert (rewards[0] == 0) == waits
            assert (terms[0], truncs[0]) == (t == 2, False)
            assert bool(infos["live"][0]) is (t < 2)
            assert obs[2].tolist() == ([1, 2, 0, t] if t >= 2 else [0, 0, 0, 0])
        assert flags.tolist() == [1, 1, 1, 1, 1, 1]
        assert vec.episode_over.all()
        # The step after the last begins the next episode in all rows.
        obs, rewards, terms, truncs, infos = vec.step(np.full(6, 99))
        assert obs.tolist() == [[1, 0, 1, 0], [1, 1, 1, 0], [0] * 4,
                                [2, 0, 1, 0], [2, 1, 1, 0], [0] * 4]  # fmt: skip
        assert not (rewards.any() or terms.any() or truncs.any())
        assert infos["live"].tolist() == [True, True, False] * 2
        assert vec.was_reset.all()


def test_in_the_same_step_rows_carry_the_next_episode():
    with rows(autoreset="same_step") as vec:
        vec.reset(seed=0)
        for _ in range(4):
            obs, rewards, terms, truncs, infos = vec.step(np.zeros(6, int))
        assert obs[:, 2].tolist() == [1, 1, 0, 1, 1, 0]
        assert truncs.tolist() == [False, True, True] * 2
        assert not terms.any()
        assert rewards.tolist() == [0, 114, 124, 0, 214, 224]
        assert infos["_final_obs"].tolist() == [False, True, True] * 2
        assert infos["final_obs"][1].tolist() == [1, 1, 0, 4]
        assert infos["final_obs"][0] is None
        assert infos["live"].tolist() == [True, True, False] * 2


def test_an_agents_episode_is_told_at_its_own_end():
    with rows() as vec:
        vec.reset(seed=0)
        told = [vec.step(np.zeros(6, int))[4] for _ in range(12)]
        second = told[1]
        assert second["_episode"].tolist() == [True, False, False] * 2
        assert second["episode"]["r"][[0, 3]].tolist() == [101 + 102, 201 + 202]
        assert second["episode"]["l"].tolist() == [2, 0, 0] * 2
        fourth = told[3]
        assert fourth["episode"]["r"][1] == sum(110 + t for t in range(1, 5))
        assert fourth["episode"]["r"][2] == 123 + 124
        assert fourth["episode"]["l"].tolist() == [0, 4, 2] * 2
        assert (fourth["episode"]["t"][[1, 2, 4, 5]] > 0).all()
        again = told[6]  # of the next episode: nothing is carried over
        assert again["episode"]["r"][0] == 203
        assert "episode" not in told[4]


def test_episodes_begin_anew_where_the_caller_resets():
    with rows() as vec:
        vec.reset(seed=0)
        vec.step(np.zeros(6, int))
        vec.reset(options={"reset_mask": np.repeat([True, False], 3)})
        infos = vec.step(np.zeros(6, int))[4]
        assert infos["_episode"].tolist() == [False] * 3 + [True, False, False]
        infos = vec.step(np.zeros(6, int))[4]
        assert infos["episode"]["r"].tolist() == [203, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_done_together(mode):
    with rows(dead="done_together", autoreset=mode) as vec:
        vec.reset(seed=0)
        for _ in range(2):
            for t in range(1, 5):
                obs, rewards, terms, truncs, infos = vec.step(np.zeros(6, int))
                if t < 4:
                    assert not (terms.any() or truncs.any())
                if t == 2:
                    assert infos["_episode"][0]
                if t == 3:
                    assert not obs[0].any()
                    assert rewards[0] == 0
                    assert not infos["live"][0]
            assert terms.tolist() == [True, False, False] * 2
            assert truncs.tolist() == [False, True, True] * 2
            if mode == "next_step":
                _, _, terms, truncs, _ = vec.step(np.zeros(6, int))
                assert not (terms.any() or truncs.any())
    with pytest.raises(ConfigError, match="done_together"):
        rows(dead="together")


def test_who_never_lived_ends_with_its_environment():
    with rows(dead="done_together", made={"born": {"c": 9}, "horizon": 3}) as vec:
        vec.reset(seed=0)
        for _ in range(3):
            _, _, terms, truncs, _ = vec.step(np.zeros(6, int))
        assert terms.tolist() == [False, False, True] * 2
        assert truncs.tolist() == [True, True, False] * 2


def test_a_reset_mask_is_equal_in_all_rows_of_an_environment():
    with rows(autoreset="disabled") as vec:
        vec.reset(seed=0)
        for _ in range(4):
            vec.step(np.zeros(6, int))
        with pytest.raises(StateError, match="environment 0"):
            vec.step(np.zeros(6, int))
        mixed = np.array([True, True, False, False, False, False])
        with pytest.raises(ConfigError, match=r"environment 0 \(rows 0 to 2\)"):
            vec.reset(options={"reset_mask": mixed})
        with pytest.raises(ConfigError, match=r"shape \(6,\)"):
            vec.reset(options={"reset_mask": np.array([True, False, True])})
        obs, infos = vec.reset(options={"reset_mask": np.repeat([False, True], 3)})
        assert obs[:, 2].tolist() == [0, 0, 0, 1, 1, 0]
        assert obs[1].tolist() == [1, 1, 0, 4]  # the other environment's rows stay
        assert infos["live"].tolist() == [False] * 3 + [True, True, False]


def test_agents_with_different_spaces_are_refused_with_a_way_out():
    class Pair(ParallelEnv):
        metadata = {"name": "pair"}
        possible_agents = ["a", "b"]
        agents = []
        render_mode = None

        def observation_space(self, agent):
            return Box(0, 1, (1 if agent == "a" else 2,))

        def action_space(self, agent):
            return Discrete(2)

    with pytest.raises(ConfigError, match="stacked"):
        seer.make_vec(Pair, num_envs=2, layout="flat", backend="serial", probe=False)


def test_agents_with_different_choices_are_refused():
    class Uneven(Ledger):
        def __init__(self):
            super().__init__(names=("a", "b"))
            self.choices = {"a": Discrete(2), "b": Discrete(3)}

    with pytest.raises(ConfigError, match=r"action space of 'a' is Discrete\(2\)"):
        seer.make_vec(Uneven, layout="flat", backend="serial")


def test_sampled_actions_honour_masks_and_life():
    for where in ("observation", "info"):
        fns = [functools.partial(Masked, where=where, tag=k, dies={"a": 2}) for k in range(3)]
        with seer.make_vec(fns, layout="flat", backend="serial") as vec:
            vec.reset(seed=0)
            for _ in range(12):
                actions = vec.sample_actions()
                assert vec.action_space.contains(actions)
                vec.step(actions)  # the environment asserts that they are legal


def test_actions_come_in_every_form():
    with rows() as vec:
        vec.reset(seed=0)
        for actions in ([0, 1, 2, 3, 4, 0], np.arange(6, dtype=np.int8), np.arange(6)[:, None],
                        tuple(range(6))):  # fmt: skip
            vec.step(actions)
        assert vec.get_attr("actions")[0][0] == {"a": 0, "b": 1}
        for wrong in (np.zeros(5, int), np.zeros((6, 2), int), np.zeros(6), [[1], [2, 3]], None):
            with pytest.raises(ActionError):
                vec.step(wrong)


def test_what_comes_back_without_a_copy():
    with rows(copy=False) as vec:
        obs, _ = vec.reset(seed=0)
        assert not obs.flags.writeable
        obs, rewards, terms, truncs, _ = vec.step(np.zeros(6, int))
        assert not any(x.flags.writeable for x in (obs, rewards, terms, truncs))


def test_teams_with_equal_spaces_take_turns_in_the_rows():
    envs = [Ledger(tag=tag) for tag in (1, 2)]
    names = envs[0].possible_agents
    spaces = {a: (envs[0].boxes[a], envs[0].choices[a]) for a in names}
    groups = group_agents(names, spaces, {"outer": ["a", "c"], "inner": ["b"]})
    spec = VecSpec(2, tuple(names), groups, "parallel")
    with flat_env(Serial(spec, [ParallelCell(env, spec, k) for k, env in enumerate(envs)])) as vec:
        obs, _ = vec.reset(seed=0)
        assert obs[:, :2].tolist() == [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]]
        vec.step(np.array([0, 1, 2, 3, 4, 0]))
        assert envs[1].actions == [{"a": 3, "b": 4, "c": 0}]


def test_some_environments_at_a_time():
    with rows(batch_size=1) as vec:
        assert not isinstance(vec, gymnasium.vector.VectorEnv)
        vec.async_reset(seed=0)
        obs, rewards, *_, infos = vec.recv()
        assert (obs.shape, rewards.shape, infos["env_id"].tolist()) == ((3, 4), (3,), [0])
        vec.send(np.zeros(3, int), infos["env_id"])
        assert vec.recv()[4]["env_id"].tolist() == [1]
        obs, rewards, *_ = vec.recv()
        assert rewards.tolist() == [101, 111, 0]
        with pytest.raises(StateError, match="send and recv"):
            vec.step(np.zeros(6, int))


@pytest.mark.parametrize("dead", ["mask", "done_together"])
def test_a_saved_vector_goes_on_with_its_statistics(dead):
    make = functools.partial(
        seer.make_vec, "uav_swarm_v0", num_envs=2, layout="flat", dead=dead, drones=3, horizon=6
    )
    with make() as one, make() as other:
        one.reset(seed=3)
        actions = one.sample_actions()
        for _ in range(4):
            one.step(actions)
        state = one.state_dict()
        other.load_state_dict(state)
        for _ in range(2):
            want, got = one.step(actions), other.step(actions)
            for infos in (want[4], got[4]):
                if "episode" in infos:
                    assert (infos["episode"].pop("t") > 0).all()
            same(got, want)
        assert want[4]["episode"]["l"].tolist() == [6] * 6


# ---- turns ------------------------------------------------------------------------------------


def test_turns_are_one_row_each_and_lose_nothing():
    make = functools.partial(Turns, names=("a", "b"), moves=5)
    with seer.make_vec([make] * 2, layout="flat", backend="serial") as vec:
        assert vec.num_envs == 2
        _, infos = vec.reset(seed=0)
        assert infos["agent"].tolist() == ["a", "a"]
        earned = {"a": 0.0, "b": 0.0}
        moves = 0
        while not vec.episode_over.any():
            _, rewards, terms, truncs, infos = vec.step(np.array([1, 1]))
            moves += 1
            earned[infos["agent"][0]] += rewards[0]
            others = infos.get("others", {})
            for agent, told in others.items():
                if not agent.startswith("_") and others[f"_{agent}"][0]:
                    earned[agent] += told["reward"][0]
                    assert told["terminated"][0] or told["truncated"][0]
        assert (terms | truncs).all()
        assert not infos["live"].any()
        plain = make()
        plain.reset(seed=0)
        want = {"a": 0.0, "b": 0.0}
        for agent in plain.agent_iter():
            _, reward, term, trunc, _ = plain.last()
            want[agent] += reward
            plain.step(None if term or trunc else 1)
        assert earned == want
        _, rewards, _, _, infos = vec.step(np.array([7, 7]))  # ignored: the episode begins anew
        assert vec.was_reset.all()
        assert not rewards.any()
        assert infos["live"].all()


def test_turns_with_different_spaces_are_refused():
    class Uneven(Turns):
        def observation_space(self, agent):
            return Box(-np.inf, np.inf, (3 if agent == "a" else 4,), np.float64)

    with pytest.raises(ConfigError, match="layout"):
        seer.make_vec(Uneven, layout="flat", backend="serial", probe=False)


def test_rows_of_what_cannot_be_batched():
    class Says(Ledger):
        def __init__(self, **options):
            super().__init__(**options)
            space = Dict(at=Box(-9, 9, (1,), np.float32), word=Text(9))
            self.boxes = dict.fromkeys(self.possible_agents, space)

        def look(self, agent):
            return {"at": np.zeros(1, np.float32), "word": agent * (1 + self.t)}

    fns = [functools.partial(Says, dies={"a": 1})] * 2
    with seer.make_vec(fns, layout="flat", backend="serial") as vec:
        obs, _ = vec.reset(seed=0)
        assert obs["word"] == ("a", "b", "c") * 2
        vec.step(np.zeros(6, int))
        obs, *_ = vec.step(np.zeros(6, int))
        assert obs["word"] == (None, "bbb", "ccc") * 2
        assert obs["at"].shape == (6, 1)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rows() as vec:
            vec.reset(seed=0)
            vec.step(vec.sample_actions())


def test_a_reset_mask_may_be_by_environment():
    with seer.make_vec(Ledger, 2, layout="flat", autoreset="disabled", horizon=2) as vec:
        vec.reset(seed=0)
        for _ in range(2):
            vec.step(np.zeros(vec.num_envs, int))
        obs, _ = vec.reset(options={"reset_mask": vec.episode_over & [True, False]})
        assert obs[:, 3].tolist() == [0, 0, 0, 2, 2, 2]
