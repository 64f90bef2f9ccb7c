"""What make_vec understands as an environment, and what it says where it doesn't."""

import functools
import subprocess
import sys
import textwrap
import types

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.deprecated_module import DeprecatedModule

import seer
from seer.errors import ConfigError, UnknownIdError
from seer.vector.describe import describe
from seer.vector.factory import Factory, construct
from seer.vector.make import OWN
from seer.vector.sources import native_id, resolve

from .worlds import Ledger


def made(source, **kwargs):
    """One environment of each factory, after the journey to a worker."""
    found = resolve(source, own=OWN, **kwargs)
    return [cloudpickle.loads(cloudpickle.dumps(factory))() for factory in found.factories]


def refused(source, error=ConfigError, **kwargs):
    with pytest.raises(error) as caught:
        resolve(source, own=OWN, **kwargs)
    return str(caught.value)


def test_version_that_pettingzoo_dropped_names_the_one_to_use(monkeypatch):
    stale = DeprecatedModule("tag_game", 3, 4)
    monkeypatch.setitem(sys.modules, "games_of_old", types.ModuleType("games_of_old"))
    monkeypatch.setattr(sys.modules["games_of_old"], "tag_game_v3", stale, raising=False)
    for source in (stale, "games_of_old:tag_game_v3"):
        assert "tag_game_v3 is now deprecated, use tag_game_v4" in refused(source)


class Lone(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, level=0, render_mode=None):
        self.level, self.render_mode = level, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}


class Loner:
    """A Gymnasium environment that inherits from nothing."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


class Pair:
    """A parallel environment that inherits from nothing and has no methods for spaces."""

    possible_agents = ["x", "y"]
    observation_spaces = {a: gymnasium.spaces.Discrete(3) for a in "xy"}
    action_spaces = {a: gymnasium.spaces.Discrete(2) for a in "xy"}

    def reset(self, seed=None, options=None):
        self.agents = ["x", "y"]
        return dict.fromkeys("xy", 0), {}

    def step(self, actions):
        nothing = dict.fromkeys("xy", False)
        return dict.fromkeys("xy", 0), dict.fromkeys("xy", 0.0), nothing, nothing, {}


def module(name="toy_v0", **members):
    """A module as PettingZoo has them."""
    new = types.ModuleType(name)
    vars(new).update(members)
    return new


def aec(**options):
    return parallel_to_aec(Ledger(**options))


# ---- what is understood --------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (Ledger, "parallel"),
        (lambda: Ledger(), "parallel"),
        (functools.partial(Ledger, tag=2), "parallel"),
        (aec, "aec"),
        (lambda: aec_to_parallel(aec()), "parallel"),
        (Lone, "gymnasium"),
        (Loner, "gymnasium"),
        (Pair, "parallel"),
        (lambda: gymnasium.wrappers.TimeLimit(Lone(), 3), "gymnasium"),
        ("CartPole-v1", "gymnasium"),
        ("CartPole", "gymnasium"),
        ("gymnasium.envs.classic_control:CartPole-v1", "gymnasium"),
        ("gymnasium.envs.classic_control:CartPole", "gymnasium"),
        ("gymnasium.envs.classic_control:CartPoleEnv", "gymnasium"),
        ("tests.vector.worlds:Ledger", "parallel"),
        ("uav_swarm", "parallel"),
        ("seer.envs:uav_swarm_v0", "parallel"),
        (gymnasium.spec("CartPole-v1"), "gymnasium"),
    ],
)
def test_kinds_of_sources(source, kind):
    (env,) = made(source)
    assert describe(env).kind == kind
    if hasattr(env, "close"):
        env.close()


def test_a_list_keeps_its_order_and_length():
    envs = made([functools.partial(Ledger, tag=k) for k in range(3)])
    assert [env.tag for env in envs] == [0, 1, 2]
    assert [e.tag for e in made((lambda: Ledger(tag=7), Ledger))] == [7, 0]


def test_copies_share_a_factory_and_nothing_else():
    source = resolve(Ledger, 4)
    assert len({id(factory) for factory in source.factories}) == 1
    assert len({id(env) for env in construct(source.factories)}) == 4


def test_names_are_for_people():
    assert resolve("uav_swarm").name == "uav_swarm_v0"
    assert resolve("CartPole").name == "CartPole-v1"
    assert resolve(functools.partial(Ledger, tag=1)).name == "Ledger"
    assert resolve(module("pkg.toy_v0", parallel_env=Ledger)).name == "toy_v0"


def test_a_module_offers_parallel_env_first():
    both = module(parallel_env=Ledger, env=aec, raw_env=aec)
    assert type(resolve(both).factories[0]()) is Ledger
    assert describe(resolve(module(env=aec)).factories[0]()).kind == "aec"
    assert describe(resolve(module(raw_env=aec)).factories[0]()).kind == "aec"


def test_a_module_is_pickled_by_name():
    from seer.envs import uav_swarm_v0

    data = cloudpickle.dumps(resolve(uav_swarm_v0, kwargs={"drones": 2}).factories[0])
    assert len(data) < 2000
    assert cloudpickle.loads(data)().possible_agents == ["drone_0", "drone_1"]


def test_keywords_go_to_the_factory():
    assert made(Ledger, kwargs={"tag": 4})[0].tag == 4
    assert made(functools.partial(Ledger, tag=4), kwargs={"horizon": 9})[0].horizon == 9
    assert made(module(parallel_env=Ledger), kwargs={"names": ("q",)})[0].possible_agents == ["q"]
    assert made("CartPole-v1", kwargs={"max_episode_steps": 3})[0]._max_episode_steps == 3
    assert made("tests.vector.worlds:Ledger", kwargs={"tag": 5})[0].tag == 5
    assert [e.tag for e in made([Ledger, Ledger], kwargs={"tag": 5})] == [5, 5]


def test_wrappers_are_applied_in_order():
    class Outer(gymnasium.Wrapper):
        pass

    inner = functools.partial(gymnasium.wrappers.TimeLimit, max_episode_steps=5)
    (env,) = made(Lone, wrappers=(inner, Outer))
    assert type(env).__name__ == "Outer"
    assert type(env.env) is gymnasium.wrappers.TimeLimit


def test_the_render_mode_goes_where_one_is_taken():
    source = resolve(Ledger, render_mode="rgb_array")
    assert source.given_mode
    assert source.factories[0]().render_mode == "rgb_array"
    assert made("CartPole-v1", render_mode="rgb_array")[0].render_mode == "rgb_array"
    assert not resolve(lambda: Ledger(), render_mode="rgb_array").given_mode
    bound = resolve(functools.partial(Ledger, render_mode="human"), render_mode="rgb_array")
    assert bound.factories[0]().render_mode == "rgb_array"


def test_native_ids():
    assert native_id("uav_swarm")
    assert native_id("uav_swarm_v0")
    assert not native_id("CartPole-v1")
    assert not native_id("seer.envs.uav_swarm_v0:parallel_env")
    assert not native_id(Ledger)


def test_an_id_registered_here_needs_no_registry_there():
    gymnasium.register("tests/Lone-v0", entry_point=lambda **kw: Lone(level=3, **kw))
    try:
        data = cloudpickle.dumps(resolve("tests/Lone-v0").factories[0])
    finally:
        del gymnasium.registry["tests/Lone-v0"]
    assert cloudpickle.loads(data)().unwrapped.level == 3


def test_an_entry_point_in_the_main_script_is_shipped(tmp_path):
    """Where it is unpickled, the main script is another one."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import cloudpickle, gymnasium, numpy as np
            from seer.vector.sources import resolve

            class Mine(gymnasium.Env):
                observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
                action_space = gymnasium.spaces.Discrete(2)
                def reset(self, *, seed=None, options=None): return np.zeros(3, np.float32), {}
                def step(self, action): return np.zeros(3, np.float32), 0.0, False, False, {}

            gymnasium.register("main/Mine-v0", entry_point="__main__:Mine")
            sys.stdout.buffer.write(cloudpickle.dumps(resolve("main/Mine-v0").factories[0]))
            """
        )
    )
    out = subprocess.run([sys.executable, str(script)], capture_output=True, check=True, timeout=60)
    env = cloudpickle.loads(out.stdout)()
    assert type(env.unwrapped).__name__ == "Mine"


# ---- what isn't ------------------------------------------------------------------------


def test_an_instance_is_refused_with_the_lambda_to_write():
    assert "make_vec(lambda: Ledger(…), num_envs=…)" in refused(Ledger())
    assert "make_vec(lambda: CartPoleEnv(…)" in refused(gymnasium.make("CartPole-v1"))


def test_an_instance_of_a_class_with_a_vague_name():
    raw_env = type("raw_env", (Ledger,), {})
    assert "make_vec(lambda: ledger.parallel_env(…)" in refused(raw_env())


def test_a_vector_is_refused_as_one():
    vector = gymnasium.vector.SyncVectorEnv([Lone])
    assert "SyncVectorEnv is a vector of environments already" in refused(vector)
    with pytest.raises(ConfigError, match="which is a vector of environments already"):
        seer.make_vec(lambda: gymnasium.vector.SyncVectorEnv([Lone]), backend="serial")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole-v7", "CartPole-v1"),
        ("uavswarm", "uav_swarm"),
        ("uav_swarm_v9", "uav_swarm_v0"),
        ("quite something else", None),
        ("gymnasium.envs.classic_control:CartPol-v1", "CartPole-v1"),
        ("no_such_package:CartPole-v1", None),
        ("tests.vector.worlds", "tests.vector:worlds"),
        ("", None),
    ],
)
def test_an_unknown_id_names_the_nearest(name, nearest):
    with pytest.raises(UnknownIdError) as caught:
        resolve(name)
    assert caught.value.name == name
    assert caught.value.nearest == nearest
    assert nearest is None or f"did you mean {nearest!r}?" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.vector.worlds:Leger", "did you mean 'Ledger'"),
        ("tests.vector.wurlds:Ledger", "there is no module"),
        ("tests.vector.worlds:Box", "needs"),
        ("sys:path", "must make an environment, but is"),
        ("tests.vector:worlds", "neither parallel_env nor env nor raw_env"),
    ],
)
def test_a_wrong_attribute(name, words):
    assert words in refused(name)


@pytest.mark.parametrize("source", [None, 3, {}, {"a": Ledger}, np.zeros(3), b"CartPole-v1"])
def test_what_is_no_source_at_all(source):
    message = refused(source)
    assert message.startswith("make_vec takes an id")
    assert repr(source) in message


def test_lists_that_are_none():
    assert "at least one factory" in refused([])
    assert "the list has 2 factories" in refused([Ledger, Ledger], num_envs=3)
    assert "entry 1 of the list is a list itself" in refused([Ledger, [Ledger]])
    assert "got an environment, Ledger" in refused([Ledger, Ledger()])


def test_a_module_without_environments():
    inner = module("inner_v1", parallel_env=Ledger)
    assert "one of which may be meant" in refused(module("family", inner_v1=inner))
    assert "neither parallel_env nor env nor raw_env" in refused(np)


@pytest.mark.parametrize(
    ("source", "keyword", "nearest"),
    [
        (Ledger, "horizn", "horizon"),
        (Ledger, "num_env", "num_envs"),
        (lambda: Ledger(), "num_env", "num_envs"),
        (lambda: Ledger(), "horizon", None),
        (functools.partial(Ledger), "tagg", "tag"),
        (module(parallel_env=lambda **kw: Ledger(**kw), raw_env=Ledger), "horizn", "horizon"),
        ("CartPole-v1", "max_episode_step", "max_episode_steps"),
        ("tests.vector.worlds:Ledger", "layot", "layout"),
        ([Ledger, lambda: Ledger()], "tagg", "tag"),
    ],
)
def test_an_unknown_keyword_names_the_nearest(source, keyword, nearest):
    message = refused(source, kwargs={keyword: 1})
    assert f"unknown keyword {keyword!r}" in message
    assert (f"did you mean {nearest!r}?" in message) if nearest else "did you mean" not in message


def test_an_unknown_keyword_of_a_factory_that_takes_anything():
    (factory,) = resolve(lambda **kw: Ledger(**kw), kwargs={"horizn": 3}, own=OWN).factories
    with pytest.raises(ConfigError, match="doesn't take the keyword 'horizn'"):
        factory()
    (factory,) = resolve(lambda **kw: Ledger(**kw), kwargs={"num_env": 3}, own=OWN).factories
    with pytest.raises(ConfigError, match="did you mean 'num_envs'"):
        factory()


def test_an_argument_that_is_missing():
    assert "Needy needs 'size'; pass size=… to make_vec" in refused(Needy)
    assert made(Needy, kwargs={"size": 3})[0].size == 3


class Needy(Ledger):
    def __init__(self, size, *, depth=1):
        super().__init__()
        self.size = size


def test_a_type_error_of_the_factory_itself_is_its_own():
    def broken(tag=1):
        raise TypeError("unexpected keyword argument 'other'")

    (factory,) = resolve(broken, kwargs={"tag": 2}).factories
    with pytest.raises(TypeError, match="other"):
        factory()


def test_a_spec_without_an_entry_point():
    spec = EnvSpec("tests/Nothing-v0", entry_point=None, vector_entry_point=Lone)
    assert "registered without an entry_point" in refused(spec)


# ---- what factories return ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "returned None, which is no environment; does it lack a return?"),
        ({}, "returned a dict, which is no environment"),
        (Ledger, "returned the class Ledger, which is no environment; give make_vec the class"),
        (lambda: Ledger(), "it can be called, so give make_vec that"),
        ([Ledger()], "give make_vec one for each in a list"),
        (3, "returned an int, which is no environment; it must have reset and step"),
    ],
)
def test_a_factory_that_makes_no_environment(returned, words):
    with pytest.raises(ConfigError) as caught:
        seer.make_vec(lambda: returned, num_envs=2, backend="serial")
    assert words in str(caught.value)
    assert caught.value.env == 0


def test_an_object_with_reset_and_step_alone():
    class Odd:
        def reset(self): ...

        def step(self, action): ...

    with pytest.raises(ConfigError, match="neither possible_agents with spaces"):
        seer.make_vec(Odd, backend="serial")


def test_an_environment_of_the_old_gym():
    space = type("Discrete", (), {"__module__": "gym.spaces.discrete"})
    old = type("Old", (), {"__module__": "mine", "reset": Loner.reset, "step": Loner.step,
                           "observation_space": space(), "action_space": space()})  # fmt: skip
    with pytest.raises(ConfigError, match=r"old gym package.*shimmy"):
        seer.make_vec(old, backend="serial")


def test_the_same_object_twice():
    shared = Ledger()
    with pytest.raises(ConfigError, match="returned the same Ledger twice"):
        seer.make_vec(lambda: shared, num_envs=2, backend="serial")
    with pytest.raises(ConfigError, match="environments 1 and 2 are the same Ledger"):
        seer.make_vec([Ledger, lambda: shared, lambda: shared], backend="serial")
    with pytest.raises(ConfigError, match="returned the same Ledger twice"):  # once to the probe
        seer.make_vec(lambda: shared, num_envs=2)
    inner = Lone()
    wrap = functools.partial(gymnasium.wrappers.TimeLimit, max_episode_steps=3)
    with pytest.raises(ConfigError, match="returned the same Lone twice"):
        seer.make_vec(lambda: inner, num_envs=2, wrappers=[wrap], backend="serial")


def test_what_was_made_is_closed_when_a_later_one_fails(tmp_path):
    log = tmp_path / "closed"

    def broken():
        raise OSError("no display")

    source = [functools.partial(Ledger, tag=k, log=log) for k in range(3)] + [broken]
    with pytest.raises(OSError, match="no display") as caught:
        seer.make_vec(source, backend="serial")
    assert caught.value.env == 3
    assert log.read_text().split() == ["0", "1", "2"]


def test_an_environment_is_closed_when_its_wrapper_fails(tmp_path):
    log = tmp_path / "closed"
    with pytest.raises(ConfigError, match=r"the wrapper .* returned None"):
        seer.make_vec(Ledger, log=log, wrappers=[lambda env: None], backend="serial")
    assert log.read_text() == "0\n"


def test_keys_tell_factories_apart_by_what_they_may_cost():
    def key(make, **kwargs):
        return Factory(make, kwargs).key()

    def made_by(n):
        return lambda: Ledger(tag=n)

    assert key(Ledger) == key(Ledger)
    assert key(Ledger, tag=1) != key(Ledger, tag=2)
    assert key(functools.partial(Ledger, tag=1)) == key(functools.partial(Ledger, tag=1))
    assert key(functools.partial(Ledger, tag=1)) != key(functools.partial(Ledger, tag=2))
    assert key(made_by(1)) == key(made_by(1))
    assert key(made_by(1)) != key(made_by(2))
