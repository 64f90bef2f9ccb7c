"""make_vec: arguments, defaults, where environments live, and how it says so."""

import functools
import os
import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

import seer
from seer.errors import ConfigError
from seer.vector import (
    DictVectorEnv,
    FlatVectorEnv,
    ListVectorEnv,
    ProcessConfig,
    StackedVectorEnv,
)

from .worlds import Ledger


class Here(Ledger):
    """Notes every construction with the process in which it happened."""

    def __init__(self, book=None, pause=0.0, **options):
        super().__init__(**{"horizon": 10**9, **options})
        self.pause = pause
        if book:
            with open(book, "a") as file:
                file.write(f"{os.getpid()}\n")

    def pid(self):
        return os.getpid()

    def step(self, actions):
        time.sleep(self.pause)
        return super().step(actions)


def seen(book):
    return [int(line) for line in book.read_text().split()]


def steps(vec, count=3):
    vec.reset(seed=1)
    for _ in range(count):
        result = vec.step(vec.sample_actions())
    return result


# ---- the usual ---------------------------------------------------------------------------


def test_three_lines():
    with seer.make_vec(Ledger, num_envs=4, backend="serial") as vec:
        observations, infos = vec.reset(seed=7)
        observations, rewards, terminated, truncated, infos = vec.step(vec.sample_actions())
    assert observations["a"].shape == (4, 4)
    assert rewards["b"].tolist() == [11.0] * 4
    assert not terminated["c"].any() and not truncated["c"].any()
    assert set(infos) == {"a", "b", "c"}
    with pytest.raises(seer.errors.ClosedError):
        vec.step({})


@pytest.mark.parametrize(
    ("source", "layout", "kind"),
    [
        (Ledger, None, DictVectorEnv),
        (Ledger, "dict", DictVectorEnv),
        (Ledger, "stacked", StackedVectorEnv),
        (Ledger, "list", ListVectorEnv),
        (Ledger, "flat", FlatVectorEnv),
        (functools.partial(parallel_to_aec, Ledger()), None, DictVectorEnv),
        ("CartPole-v1", None, FlatVectorEnv),
        ("CartPole-v1", "dict", DictVectorEnv),
    ],
)
def test_layouts(source, layout, kind):
    with seer.make_vec(source, layout=layout, backend="serial") as vec:
        assert type(vec) is kind
        assert isinstance(vec, gymnasium.vector.VectorEnv) == (kind is FlatVectorEnv)
        assert isinstance(vec.reset(seed=0), tuple)


def test_one_environment_by_default_and_a_lists_length():
    assert seer.make_vec(Ledger).num_envs == 1
    assert seer.make_vec([Ledger] * 3, backend="serial").num_envs == 3


def test_environments_are_built_by_their_own_factories():
    makes = [functools.partial(Ledger, tag=k) for k in range(5)]
    with seer.make_vec(makes, backend="serial") as vec:
        observations, _ = vec.reset(seed=3)
        assert observations["a"][:, 0].tolist() == [0, 1, 2, 3, 4]
        assert vec.get_attr("seeds") == ([3], [4], [5], [6], [7])


def test_different_agents_are_united():
    makes = [lambda: Ledger(names=("a", "b")), lambda: Ledger(names=("b", "z"))]
    with seer.make_vec(makes, backend="serial") as vec:
        assert vec.possible_agents == ["a", "b", "z"]
        vec.reset(seed=0)
        assert vec.live.tolist() == [[True, True, False], [False, True, True]]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_in_all_its_spellings(mode):
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in mode.value).lstrip("_")
    for given in ({"autoreset": mode}, {"autoreset": mode.value}, {"autoreset": snake},
                  {"autoreset_mode": mode}):  # fmt: skip
        vec = seer.make_vec(Ledger, backend="serial", **given)
        assert vec.metadata["autoreset_mode"] is mode


def test_env_kwargs_reach_names_that_make_vec_has_itself():
    class Grouped(Ledger):
        def __init__(self, groups=1, tag=0):
            super().__init__(tag=tag)
            self.groups = groups

    with seer.make_vec(Grouped, env_kwargs={"groups": 5}, tag=2, backend="serial") as vec:
        assert vec.get_attr("groups") == (5,)
        assert vec.get_attr("tag") == (2,)


def test_render_mode_is_the_environments():
    assert seer.make_vec(Ledger, render_mode="rgb_array").render_mode == "rgb_array"
    bound = functools.partial(Ledger, render_mode="rgb_array")
    assert seer.make_vec(bound).render_mode == "rgb_array"
    same = seer.make_vec(lambda: Ledger(render_mode="rgb_array"), render_mode="rgb_array")
    assert same.render_mode == "rgb_array"
    with pytest.raises(ConfigError, match=r"takes no render_mode.*set it where they are made"):
        seer.make_vec(lambda: Ledger(), render_mode="rgb_array")


def test_several_groups_or_one():
    with seer.make_vec(Ledger, groups="all", layout="stacked", backend="serial") as vec:
        observations, _ = vec.reset(seed=0)
        assert observations["agents"].shape == (1, 3, 4)
    with seer.make_vec(Ledger, groups={"x": ["a", "c"], "y": ["b"]}, layout="stacked") as vec:
        assert {name: o.shape for name, o in vec.reset()[0].items()} == {
            "x": (1, 2, 4), "y": (1, 1, 4),
        }  # fmt: skip


def test_slots_for_agents_that_appear():
    class Guests(ParallelEnv):
        possible_agents = ["host"]

        def observation_space(self, agent):
            return Box(0, 9, (1,), np.float32)

        def action_space(self, agent):
            return Discrete(2)

        def reset(self, seed=None, options=None):
            self.agents, self.t = ["host"], 0
            return {"host": np.zeros(1, np.float32)}, {}

        def step(self, actions):
            self.t += 1
            self.agents = ["host", f"guest_{self.t}"]
            nothing = dict.fromkeys(self.agents, False)
            seen = {a: np.full(1, self.t, np.float32) for a in self.agents}
            return seen, dict.fromkeys(self.agents, 1.0), nothing, nothing, {}

    with seer.make_vec(Guests, max_agents=2, backend="serial", groups="all") as vec:
        assert len(vec.possible_agents) == 3
        steps(vec, 1)
        assert vec.slots == [{"guest_1": 1}]
    with seer.make_vec(Guests, backend="serial") as vec:
        vec.reset()
        with pytest.raises(seer.errors.UnknownAgentError, match="max_agents"):
            vec.step(vec.sample_actions())


def test_agents_that_are_known_only_after_a_reset():
    class Late(Ledger):
        def __init__(self):
            super().__init__()
            self.names, self.possible_agents = self.possible_agents, None

        def reset(self, seed=None, options=None):
            self.possible_agents = self.names
            return super().reset(seed, options)

    with seer.make_vec(Late, 2, backend="serial") as vec:
        assert vec.possible_agents == ["a", "b", "c"]
        steps(vec)
    with pytest.raises(ConfigError, match="has no possible_agents"):
        seer.make_vec(Late, 2, backend="serial", probe=False)


# ---- what isn't legal ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_envs": 0}, "num_envs=….: expected at least 1, got 0"),
        ({"num_envs": 2.5}, "whole number of environments, got 2.5"),
        ({"num_envs": True}, "whole number of environments, got True"),
        ({"layout": "flt"}, "did you mean 'flat'"),
        ({"layout": 3}, "expected 'flat', 'dict', 'stacked' or 'list', got 3"),
        ({"backend": "threads"}, "expected 'auto', 'serial', 'process' or 'native'"),
        ({"backend": "native"}, "is no model of the engine"),
        ({"workers": 0}, "backend='serial' has no workers"),
        ({"workers": -1}, "expected at least 1, got -1"),
        ({"workers": "two"}, "whole number of worker processes, got 'two'"),
        ({"workers": 3, "num_envs": 2}, "3 workers for 2 environments"),
        ({"isolate": 1}, "expected True or False, got 1"),
        ({"pool": "fast"}, "expected 'auto', a seer.PoolConfig .* or a"),
        ({"pool": seer.PoolConfig(2)}, "PoolConfig.* is for native worlds"),
        ({"pool": ProcessConfig(2), "workers": 2}, "both choose the workers"),
        ({"pool": ProcessConfig(1, 0.5), "isolate": True}, "keeps every environment in a worker"),
        ({"pool": ProcessConfig(0), "timeout": 1}, "keeps every environment in a worker"),
        ({"autoreset": "never"}, "expected 'next_step', 'same_step', 'disabled'"),
        ({"autoreset": "same_step", "autoreset_mode": "disabled"}, "two names of one argument"),
        ({"autoreset_options": "first"}, "expected None, 'last', a dict, or a callable"),
        ({"batch_size": 0}, "expected at least 1, got 0"),
        ({"batch_size": 3, "num_envs": 2}, "there are only 2 environments"),
        ({"groups": "x"}, "groups: expected None, 'spaces'"),
        ({"groups": "all", "layout": "flat"}, "flat rows know no groups"),
        ({"groups": {"x": ["a"]}}, "expected every agent"),
        ({"dead": "never"}, "expected 'mask' or 'done_together'"),
        ({"dead": "done_together", "layout": "stacked"}, "only flat rows need it"),
        ({"dead": "done_together"}, "only layout='flat' needs it"),
        ({"max_agents": 0}, "expected at least 1, got 0"),
        ({"render_mode": 3}, "expected None or a name"),
        ({"copy": "yes"}, "expected True or False, got 'yes'"),
        ({"timeout": 0}, "above 0, got 0"),
        ({"timeout": float("inf")}, "finite number of seconds"),
        ({"timeout": "1"}, "expected a number of seconds, got '1'"),
        ({"on_worker_death": "ignore"}, "expected 'raise' or 'restart'"),
        ({"start_method": "thread"}, "expected 'forkserver', 'spawn' or 'fork'"),
        ({"wrappers": Ledger}, "write wrappers=\\[…\\] around it"),
        ({"wrappers": "abc"}, "a sequence of callables env -> env, got 'abc'"),
        ({"wrappers": [3]}, "got 3 at 0"),
        ({"probe": None}, "expected True or False, got None"),
        ({"env_kwargs": [("tag", 1)]}, "expected a dict, got list"),
        ({"env_kwargs": {"tag": 1}, "tag": 2}, "'tag' is given twice"),
        ({"backend": "serial", "workers": 2}, "workers=2 can't be had"),
        ({"backend": "serial", "isolate": True}, "isolate=True can't be had"),
        ({"backend": "serial", "timeout": 2}, "timeout=2 can't be had"),
        ({"backend": "serial", "on_worker_death": "restart"}, "'restart' can't be had"),
        ({"backend": "serial", "start_method": "fork"}, "start_method='fork' can't be had"),
        ({"backend": "serial", "pool": ProcessConfig(1)}, "pool=ProcessConfig.* can't be had"),
        ({"backend": "process", "pool": seer.PoolConfig(1)}, "give a ProcessConfig"),
        ({"num_env": 3}, "did you mean 'num_envs'"),
    ],
)
def test_illegal_arguments(arguments, words):
    with pytest.raises(ConfigError, match=words):
        seer.make_vec(Ledger, **arguments)


def test_rows_have_no_groups_by_default_either():
    with pytest.raises(ConfigError, match="rows know no groups"):
        seer.make_vec("CartPole-v1", groups="each")


def test_flat_rows_need_equal_spaces():
    class Uneven(Ledger):
        def __init__(self):
            super().__init__()
            self.boxes["b"] = Box(0, 1, (2,), np.float32)

    with pytest.raises(ConfigError, match=r"layout='flat'.*all agents need equal spaces.*'b'"):
        seer.make_vec(Uneven, layout="flat", backend="serial")


@pytest.mark.parametrize("layout", ["dict", "stacked", "list", "flat"])
def test_native_worlds_in_every_layout(layout):
    with seer.make_vec("uav_swarm", 3, drones=2, layout=layout, pool=seer.PoolConfig(1)) as vec:
        assert type(vec._backend).__name__ == "Native"
        assert vec.layout == layout
        assert "thread" in vec.pool.explain()
        steps(vec)
        assert vec.live.shape == (3, 2)


def test_native_worlds_have_no_workers():
    for given in ({"workers": 2}, {"isolate": True}, {"timeout": 3}, {"pool": ProcessConfig(1)}):
        with pytest.raises(ConfigError, match=r"runs as native worlds.*backend='process'"):
            seer.make_vec("uav_swarm", 2, drones=2, **given)
    with pytest.raises(ConfigError, match="max_agents"):
        seer.make_vec("uav_swarm", 2, drones=2, max_agents=2)
    with pytest.raises(ConfigError, match="there are only 2 environments"):
        seer.make_vec("uav_swarm", 2, drones=2, batch_size=3)


def test_an_unknown_keyword_of_native_worlds():
    with pytest.raises(ConfigError, match="unknown keyword 'num_env'; did you mean 'num_envs'"):
        seer.make_vec("uav_swarm", num_env=2)
    with pytest.raises(ConfigError, match="no parameter 'drone'; did you mean 'drones'"):
        seer.make_vec("uav_swarm", drone=2)


def test_wrapped_native_ids_are_no_native_worlds():
    def wrap(env):
        return env

    with seer.make_vec("uav_swarm", 2, drones=2, wrappers=[wrap], backend="serial") as vec:
        steps(vec)
    with pytest.raises(ConfigError, match="wrappers go around single environments"):
        seer.make_vec("uav_swarm", 2, drones=2, wrappers=[wrap], backend="native")
    with pytest.raises(ConfigError, match="is for native worlds"):
        seer.make_vec("uav_swarm", 2, drones=2, wrappers=[wrap], pool=seer.PoolConfig(1))


def test_a_native_id_can_be_stepped_as_an_environment():
    with seer.make_vec("uav_swarm", 2, drones=2, backend="serial") as vec:
        steps(vec)
        assert type(vec._backend).__name__ == "Serial"


def test_nothing_stays_open_when_the_layout_is_refused(tmp_path):
    log = tmp_path / "closed"

    class Uneven(Ledger):
        def __init__(self):
            super().__init__(log=log)
            self.boxes["b"] = Box(0, 1, (2,), np.float32)

    for backend in ("serial", "process"):
        with pytest.raises(ConfigError):
            seer.make_vec(Uneven, 2, layout="flat", backend=backend, probe=False)
    assert log.read_text() == "0\n" * 4


# ---- where environments live -----------------------------------------------------------------


def test_serial_makes_no_extra_instance(tmp_path):
    book = tmp_path / "book"
    with seer.make_vec(Here, 3, backend="serial", book=book) as vec:
        assert set(vec.call("pid")) == {os.getpid()}
        assert vec.pool.workers == 0
        assert "backend='serial' was asked for" in vec.pool.explain()
    assert seen(book) == [os.getpid()] * 3


def test_auto_makes_one_extra_instance(tmp_path):
    book = tmp_path / "book"
    with seer.make_vec(Here, 3, book=book):
        pass
    assert len(seen(book)) == 4


def test_auto_without_a_probe(tmp_path):
    book = tmp_path / "book"
    with seer.make_vec(Here, 3, probe=False, book=book) as vec:
        assert "probe=False" in vec.pool.explain()
    assert len(seen(book)) == 3


def test_auto_shares_what_is_heavy(monkeypatch):
    monkeypatch.setattr("seer.vector.chooser.usable_cpus", lambda: 2)
    with seer.make_vec(Here, 4, pause=5e-3) as vec:
        pids = vec.call("pid")
        assert pids[0] == pids[1] == os.getpid()
        assert pids[2] == pids[3] != os.getpid()
        assert vec.pool.workers == 1
        assert "per environment" in vec.pool.explain() and "usable CPUs" in vec.pool.explain()
        steps(vec)


def test_auto_keeps_what_is_light():
    class Light(gymnasium.Env):
        observation_space = Discrete(2)
        action_space = Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, False, {}

    with seer.make_vec(Light, 2) as vec:
        assert vec.pool.workers == 0
        assert "per environment" in vec.pool.explain()


def test_a_failing_probe_leaves_the_error_to_its_place():
    class Fails(Ledger):
        def reset(self, seed=None, options=None):
            raise OSError("no reset today")

    with seer.make_vec(Fails, 2) as vec:
        assert "the probe failed (OSError: no reset today)" in vec.pool.explain()
        with pytest.raises(OSError, match="no reset today"):
            vec.reset()


@pytest.mark.parametrize(
    "arguments",
    [{"isolate": True}, {"workers": 2}, {"timeout": 30}, {"on_worker_death": "restart"}],
)
def test_isolation_runs_nothing_here(arguments, tmp_path):
    book = tmp_path / "book"
    with seer.make_vec(Here, 4, book=book, **arguments) as vec:
        assert os.getpid() not in vec.call("pid")
        assert next(iter(arguments)) in vec.pool.explain()
        steps(vec)
    assert len(seen(book)) == 4
    assert os.getpid() not in seen(book)


def test_exactly_as_many_workers_as_asked_for():
    with seer.make_vec(Here, 5, workers=3) as vec:
        assert len(set(vec.call("pid"))) == 3
        assert vec.pool.workers == 3


def test_a_config_is_followed():
    with seer.make_vec(Here, 8, pool=ProcessConfig(2, caller_share=0.25)) as vec:
        pids = list(vec.call("pid"))
        assert pids.count(os.getpid()) == 2
        assert pids[:2] == [os.getpid()] * 2
        assert len(set(pids)) == 3
        steps(vec)
    with seer.make_vec(Here, 2, pool=ProcessConfig(0)) as vec:
        assert set(vec.call("pid")) == {os.getpid()}
    with seer.make_vec(Here, 4, pool=ProcessConfig(2), isolate=True) as vec:
        assert os.getpid() not in vec.call("pid")


def test_asynchronous_environments_advance_without_the_caller(monkeypatch):
    monkeypatch.setattr("seer.vector.chooser.usable_cpus", lambda: 2)
    for backend in ("auto", "process"):
        with seer.make_vec(Here, 4, batch_size=2, pause=2e-3, backend=backend) as vec:
            assert os.getpid() not in vec.call("pid")
            assert vec.pool.workers == 2
            assert "batch_size=2" in vec.pool.explain()
    with seer.make_vec(Here, 4, batch_size=4, pause=2e-3) as vec:
        assert vec.call("pid")[0] == os.getpid()


def test_unequal_factories_are_dealt_by_cost():
    makes = [functools.partial(Here, pause=0.02)] + [functools.partial(Here, tag=1)] * 5
    with seer.make_vec(makes, pool=ProcessConfig(1)) as vec:
        pids = vec.call("pid")
        assert pids[0] == os.getpid()
        assert set(pids[1:]) != {os.getpid()} and len(set(pids[1:])) == 1


def test_windows_are_opened_by_the_caller(tmp_path):
    book = tmp_path / "book"
    with seer.make_vec(Here, 3, render_mode="human", pause=5e-3, book=book) as vec:
        assert set(vec.call("pid")) == {os.getpid()}
        assert "windows" in vec.pool.explain()
    assert len(seen(book)) == 3  # a probe would have opened one more
    for given in ({"backend": "process"}, {"workers": 2}, {"pool": ProcessConfig(1)}):
        with pytest.raises(ConfigError, match="can open windows"):
            seer.make_vec(Here, 3, render_mode="human", **given)


def test_wrappers_and_registered_ids_work_in_workers():
    class Doubled(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    gymnasium.register("tests/Cart-v0", entry_point=lambda **kw: gymnasium.make("CartPole-v1"))
    try:
        with seer.make_vec("tests/Cart-v0", 2, workers=2, wrappers=[Doubled]) as vec:
            assert steps(vec)[1].tolist() == [2.0, 2.0]
    finally:
        del gymnasium.registry["tests/Cart-v0"]


def test_an_exception_of_a_factory_keeps_its_type(tmp_path):
    log = tmp_path / "closed"

    def broken():
        raise OSError("no display")

    makes = [functools.partial(Ledger, log=log)] * 3 + [broken]
    for given in ({"backend": "serial"}, {"workers": 2}, {"pool": ProcessConfig(1)}):
        with pytest.raises(OSError, match="no display") as caught:
            seer.make_vec(makes, **given)
        assert caught.value.env == 3


def test_a_factory_that_cant_be_sent():
    lock = threading.Lock()

    def factory():
        with lock:
            return Here(pause=5e-3)

    with seer.make_vec(factory, 2) as vec:
        assert set(vec.call("pid")) == {os.getpid()}
        assert "can't be sent to a worker process (TypeError: cannot pickle" in vec.pool.explain()
    with pytest.raises(ConfigError, match="make what can't be pickled inside the factory"):
        seer.make_vec(factory, 2, workers=2)


def test_what_is_printed():
    with seer.make_vec(Ledger, 2, backend="serial", groups="all") as vec:
        text = repr(vec)
    for words in ("Ledger", "3 agents", "agents (3)", "'dict'", "serial", "was asked for"):
        assert words in text


def test_what_has_no_name_is_called_as_its_environments():
    assert seer.make_vec(lambda: Ledger())._spec.name == "ledger"
    assert seer.make_vec(Ledger)._spec.name == "Ledger"
