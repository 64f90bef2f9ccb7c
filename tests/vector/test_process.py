"""Workers: the same results as in one process, and what they take from the caller's machine."""

import functools
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import seer
from seer.errors import ActionError, ConfigError, OutOfMemoryError, StateError
from seer.vector.config import ProcessConfig
from seer.vector.wire import Memory

from .troubled import Troubled
from .worlds import Ledger, Masked

METHODS = ("forkserver", "spawn", "fork")
LAYOUTS = ("dict", "stacked", "list")
MODES = ("next_step", "same_step")
SHARES = {
    "2 workers": {"workers": 2},
    "1 worker and the caller": {"pool": ProcessConfig(1)},
    "3 workers, unevenly": {"workers": 3},
}


def vector(factory, count=4, **options):
    return seer.make_vec(factory, None if isinstance(factory, list) else count, **options)


def equal(a, b, where=""):
    """Whether two results are the same to the bit, dtypes and keys included."""
    assert type(a) is type(b), (where, a, b)
    if isinstance(a, dict):
        assert set(a) == set(b), (where, list(a), list(b))
        for key in a:
            equal(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), (where, a, b)
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            equal(x, y, f"{where}[{k}]")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, (where, a, b)
        if a.dtype == object:
            equal(a.tolist(), b.tolist(), where)
        else:
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (where, a, b)
    else:
        assert a == b or (a != a and b != b), (where, a, b)


def play(vec, steps, seed=0):
    """Everything that comes back from a number of steps."""
    out = [vec.reset(seed=seed)]
    for k in range(steps):
        vec.seed_spaces(k)
        out.append((*vec.step(vec.sample_actions()), vec.live, vec.acted, vec.episode_over,
                    vec.was_reset))  # fmt: skip
        if vec.layout == "list":
            out.append(vec.final)
    return out


# ---- the same as in one process ----------------------------------------------------------


LIVES = [
    {}, {"dies": {"b": 2}}, {"dies": {"a": 1}, "leaves": {"b": 2}}, {"born": {"c": 2}},
    {"reuse": True}, {"horizon": 1},
]  # fmt: skip


def told(env, agent):
    return {"t": env.t, "who": agent, "x": np.arange(env.t)} if env.t % 2 else {}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_process_gives_what_serial_gives(layout, mode, share):
    factories = [
        functools.partial(Ledger, tag=k, told=told, **options) for k, options in enumerate(LIVES)
    ]
    with (
        vector(factories, backend="serial", layout=layout, autoreset=mode) as one,
        vector(factories, layout=layout, autoreset=mode, **SHARES[share]) as many,
    ):
        equal(play(many, 11), play(one, 11))


@pytest.mark.parametrize("method", METHODS)
def test_process_gives_the_same_by_every_start_method(method):
    make = [functools.partial(Masked, tag=k, dies={"b": 3}) for k in range(3)]
    with (
        vector(make, backend="serial") as one,
        vector(make, workers=2, start_method=method) as many,
    ):
        equal(play(many, 9), play(one, 9))


@pytest.mark.parametrize("mode", MODES)
def test_process_gives_the_same_for_gymnasium(mode):
    with (
        vector("CartPole-v1", 5, backend="serial", autoreset=mode) as one,
        vector("CartPole-v1", 5, workers=2, autoreset=mode) as many,
    ):
        a, b = play(one, 60), play(many, 60)
    for results in (a, b):  # the time that an episode took is no part of its trajectory
        for result in results:
            if isinstance(result[-1], dict) and "episode" in result[-1]:
                result[-1]["episode"].pop("t")
    equal(b, a)


class Odd(ParallelEnv):
    """Spaces of all kinds, among them such as can't be put into arrays."""

    metadata = {"name": "odd"}

    def __init__(self, tag=0):
        self.tag, self.t = tag, 0
        self.possible_agents, self.agents = ["text_0", "deep_0", "tree_0"], []
        self.seen = {
            "text_0": spaces.Text(20),
            "deep_0": spaces.Dict(
                a=spaces.Box(-9, 9, (2, 3), np.int16), b=spaces.Tuple((spaces.Discrete(9, start=-2),
                spaces.MultiBinary(3))),
            ),
            "tree_0": spaces.Dict(
                x=spaces.Box(-9, 9, (1,), np.float32), y=spaces.Sequence(spaces.Discrete(3))
            ),
        }  # fmt: skip
        self.done = {
            "text_0": spaces.Text(5), "deep_0": spaces.Tuple((spaces.Discrete(3),
            spaces.Box(-1, 1, (2,), np.float32))), "tree_0": spaces.MultiDiscrete([2, 3]),
        }  # fmt: skip

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.done[agent]

    def look(self):
        t = self.t
        values = {
            "text_0": f"{self.tag} at {t}",
            "deep_0": {"a": np.full((2, 3), t, np.int16), "b": (np.int64(t % 7 - 2), np.array(
                [t % 2, 1, 0], np.int8))},
            "tree_0": {"x": np.array([t], np.float32), "y": tuple(range(t % 3))},
        }  # fmt: skip
        return {a: values[a] for a in self.agents}

    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, list(self.possible_agents)
        return self.look(), {a: {} for a in self.agents}

    def step(self, actions):
        self.t += 1
        observations, agents = self.look(), self.agents
        over = self.t == 5
        said = {a: {"said": repr(actions[a])} for a in agents}
        dead = {a: a == "tree_0" and self.t == 3 for a in agents}
        self.agents = [] if over else [a for a in agents if not dead[a]]
        flags = dict.fromkeys(agents, over)
        return observations, dict.fromkeys(agents, 1.0), dead, flags, said


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_process_carries_what_arrays_cannot(layout, mode):
    make = [functools.partial(Odd, tag=k) for k in range(4)]
    options = {"layout": layout, "autoreset": mode}
    with (
        vector(make, backend="serial", **options) as one,
        vector(make, workers=2, **options) as two,
    ):
        equal(play(two, 9), play(one, 9))


def test_process_resets_some_and_leaves_the_others():
    make = [functools.partial(Ledger, tag=k, horizon=9) for k in range(5)]
    results = []
    for share in ({"backend": "serial"}, {"workers": 2}, {"pool": ProcessConfig(1)}):
        with vector(make, layout="stacked", **share) as vec:
            out = play(vec, 3)
            mask = np.array([True, False, False, True, False])
            out.append(vec.reset(seed=[5, 6, 7, 8, 9], options={"reset_mask": mask, "level": 2}))
            vec.seed_spaces(1)
            out.append(vec.step(vec.sample_actions()))
            out += [vec.get_attr("seeds"), vec.get_attr("options")]
            results.append(out)
    equal(results[1], results[0])
    equal(results[2], results[0])


def test_process_infos_too_large_for_their_room_arrive():
    big = functools.partial(Ledger, told=lambda env, agent: {"big": np.arange(40000) + env.t})
    with vector(big, 4, workers=2, layout="list") as vec:
        vec.reset(seed=0)
        for t in range(1, 4):
            infos = vec.step([dict.fromkeys("abc", 0)] * 4)[4]
            assert all(info["b"]["big"][-1] == 39999 + t for info in infos)


# ---- frames ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 3, 40])
def test_process_results_stay_as_they_were(kept):
    make = [functools.partial(Troubled, tag=k) for k in range(4)]
    with vector(make, workers=2, layout="stacked") as vec:
        vec.reset(seed=0)
        held = []
        for t in range(1, 100):
            observations, rewards, *_ = vec.step(vec.sample_actions())
            held.append((t, observations["a"], rewards["a"]))
            held = held[-kept:]
            for at, seen, reward in held:
                assert (seen[..., 3] == at).all() and (reward == at).all()
            observations["a"][..., 1] = -5.0  # they are the caller's
    assert all((seen[..., 3] == at).all() for at, seen, _ in held)  # after close, too


def test_process_without_copies_is_read_only_and_used_again():
    with vector(Troubled, 4, workers=2, layout="stacked", copy=False) as vec:
        vec.reset(seed=0)
        first = vec.step(vec.sample_actions())[0]["a"]
        with pytest.raises(ValueError):
            first[0, 0, 0] = 1.0
        for _ in range(3):
            vec.step(vec.sample_actions())
        assert first[0, 0, 3] > 1.0


def test_process_actions_are_read_before_step_returns():
    with vector(functools.partial(Ledger, horizon=99), 2, workers=2) as vec:
        vec.reset(seed=0)
        for value in range(4):
            actions = {a: np.full(2, value) for a in vec.agents}
            vec.step(actions)
            for array in actions.values():
                array[:] = 4
        taken = vec.get_attr("actions")
        assert [[int(a["b"]) for a in acts] for acts in taken] == [[0, 1, 2, 3]] * 2


# ---- asynchronous -----------------------------------------------------------------------------


class Slow(Troubled):
    """Steps take (tag) times a while."""

    def step(self, actions):
        time.sleep(0.004 * self.tag)
        return super().step(actions)


@pytest.mark.parametrize(
    "share", [{"workers": 2}, {"workers": 4}, {"pool": ProcessConfig(1)}], ids=str
)
def test_async_every_environment_steps_as_it_is_told(share):
    make = [functools.partial(Slow, tag=k, horizon=7) for k in range(4)]
    with vector(make, batch_size=2, layout="stacked", **share) as vec:
        vec.async_reset(seed=10)
        steps, times = np.zeros(4, int), np.full(4, -1)
        order = []
        for _ in range(60):
            observations, rewards, _, _, infos = vec.recv()
            envs = infos["env_id"]
            assert np.array_equal(envs, np.sort(envs)) and len(envs) == 2
            seen = observations["a"]
            assert np.array_equal(seen[:, 0, 0], envs)
            for row, env in enumerate(envs):
                times[env] = 0 if times[env] in (-1, 7) else times[env] + 1
                assert seen[row, 0, 3] == times[env]
                assert rewards["a"][row, 0] == times[env]
            steps[envs] += 1
            order += envs.tolist()
            vec.send(vec.sample_actions(), envs)
        assert (steps >= 5).all()  # nobody starves
    assert steps[0] > steps[3] or "pool" in share  # and who is quick goes ahead


def test_async_gives_what_serial_gives():
    make = [functools.partial(Ledger, tag=k, dies={"a": 2}, told=told) for k in range(6)]
    results = []
    for share in ({"backend": "serial"}, {"workers": 2}, {"workers": 6}):
        with vector(make, batch_size=6, layout="list", autoreset="same_step", **share) as vec:
            vec.async_reset(seed=3)
            out = [vec.recv()]
            for k in range(9):
                vec.seed_spaces(k)
                vec.send(vec.sample_actions())
                out.append((*vec.recv(), vec.final))
            results.append(out)
    equal(results[1], results[0])
    equal(results[2], results[0])


def test_async_reset_drains_and_step_follows():
    make = [functools.partial(Slow, tag=k) for k in range(4)]
    with vector(make, workers=2, layout="stacked") as vec:
        vec.reset(seed=0)
        vec.send(vec.sample_actions())
        with pytest.raises(StateError, match="are stepping"):
            vec.step(vec.sample_actions())
        observations, _ = vec.reset(seed=5)
        assert np.array_equal(observations["a"][:, 0, 1], [5, 6, 7, 8])
        assert vec.step(vec.sample_actions())[1]["a"].tolist() == [[1.0, 1.0]] * 4


def test_async_infos_too_large_for_their_room_arrive():
    big = functools.partial(Ledger, told=lambda env, agent: {"big": np.arange(90000) + env.t})
    with vector(big, 4, workers=1, batch_size=3, layout="list") as vec:
        vec.async_reset(seed=0)
        for _ in range(12):
            *_, infos = vec.recv()
            assert len(infos) == 3 and all(len(info["a"]["big"]) == 90000 for info in infos)
            vec.send([dict.fromkeys("abc", 0) if vec.live[k].any() else {} for k in range(3)])


# ---- calls ---------------------------------------------------------------------------------


def test_calls_reach_the_environments_wherever_they_live():
    make = [functools.partial(Troubled, tag=k) for k in range(5)]
    with vector(make, pool=ProcessConfig(2)) as vec:
        vec.reset(seed=0)
        assert vec.call("called", 3) == (0, 3, 6, 9, 12)
        assert vec.call("called", number=2, envs=[4, 1]) == (8, 2)
        assert vec.get_attr("tag") == (0, 1, 2, 3, 4)
        vec.set_attr("tag", [7, 8], envs=[3, 0])
        assert vec.get_attr("tag") == (8, 1, 2, 7, 4)
        assert [int(picture[0, 0, 0]) for picture in vec.render()] == [8, 1, 2, 7, 4]
        assert int(vec.render(3)[0, 0, 0]) == 7
        with pytest.raises(Exception, match="lock"):
            vec.call("lock", envs=[4])
        with pytest.raises(AttributeError, match="nothing") as caught:
            vec.call("nothing", envs=[4])
        assert caught.value.env == 4
        assert vec.step(vec.sample_actions())[1]["a_0"].tolist() == [1.0] * 5


def test_illegal_actions_leave_the_workers_alone():
    with vector(Troubled, 4, workers=2) as vec:
        vec.reset(seed=0)
        with pytest.raises(ActionError):
            vec.step({"a_0": np.zeros(4, int)})
        assert vec.step(vec.sample_actions())[1]["a_1"].tolist() == [1.0] * 4


# ---- the caller's surroundings ----------------------------------------------------------------


class Looking(Troubled):
    """Tells where it is."""

    def look(self, what):
        if what == "pid":
            return os.getpid()
        if what == "affinity":
            return sorted(os.sched_getaffinity(0))
        if what == "threads":
            import threadpoolctl

            np.ones((2, 2)) @ np.ones((2, 2))
            return max([pool["num_threads"] for pool in threadpoolctl.threadpool_info()] or [1])
        if what == "environ":
            return dict(os.environ)
        if what == "directory":
            return os.getcwd()
        if what == "group":
            return os.getpgid(0)
        return sys.modules["__main__"].__dict__.get("__file__")


@pytest.mark.parametrize("method", METHODS)
def test_workers_are_where_the_caller_is_now(method, monkeypatch, tmp_path):
    vector(Looking, 2, workers=1, start_method=method).close()  # the server runs from before
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEER_TEST_OF_WORKERS", "here")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    (tmp_path / "written_just_now.py").write_text("def make(): return Thing()\n"
        "from vector.test_process import Looking\nclass Thing(Looking): pass\n")  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    with vector("written_just_now:make", 2, workers=2, start_method=method) as vec:
        environ = vec.call("look", "environ")[1]
        assert environ["SEER_TEST_OF_WORKERS"] == "here" and "PYTEST_CURRENT_TEST" not in environ
        assert vec.call("look", "directory") == (str(tmp_path), str(tmp_path))
        pids = vec.call("look", "pid")
        assert len({os.getpid(), *pids}) == 3
        assert vec.call("look", "group") == pids
        assert vec.call("look", "affinity") == (sorted(os.sched_getaffinity(0)),) * 2


@pytest.mark.parametrize("method", METHODS)
def test_workers_inherit_affinity_as_it_is_when_they_start(method):
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(before)})
        with vector(Looking, 2, workers=2, start_method=method) as vec:
            assert vec.call("look", "affinity") == ([max(before)],) * 2
    finally:
        os.sched_setaffinity(0, before)


def test_workers_can_be_pinned():
    cpus = sorted(os.sched_getaffinity(0))
    with vector(Looking, 3, pool=ProcessConfig(2, caller_share=0, pin=True)) as vec:
        seen = vec.call("look", "affinity")
    assert seen[0] == [cpus[1 % len(cpus)]] and seen[-1] == [cpus[2 % len(cpus)]]


@pytest.mark.parametrize("method", METHODS)
def test_threads_of_numeric_libraries_are_limited_in_workers_alone(method):
    import threadpoolctl

    np.ones((2, 2)) @ np.ones((2, 2))

    def mine():
        return [(p["filepath"], p["num_threads"]) for p in threadpoolctl.threadpool_info()], dict(
            os.environ
        )

    before = mine()
    with vector(Looking, 2, workers=2, start_method=method) as vec:
        assert mine() == before
        most = max(1, len(os.sched_getaffinity(0)) // 2)
        assert max(vec.call("look", "threads")) <= most
        assert vec.call("look", "environ")[0]["OMP_NUM_THREADS"] == str(most)
    assert mine() == before


def test_a_lower_number_of_threads_set_by_the_user_stays(monkeypatch):
    monkeypatch.setattr("seer.vector.process.usable_cpus", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with vector(Looking, 2, workers=2) as vec:
        environ = vec.call("look", "environ")[0]
        assert environ["OMP_NUM_THREADS"] == "2" and environ["OPENBLAS_NUM_THREADS"] == "32"


@pytest.mark.parametrize("method", METHODS)
def test_registrations_of_the_caller_hold_in_workers(method):
    class Nested(gymnasium.Env):  # made in a function: it has no importable name
        observation_space = spaces.Box(-1, 1, (1,))
        action_space = spaces.Discrete(2)

        def __init__(self, inner=True):
            if inner:  # by its id, in the worker
                gymnasium.make("tests/Nested-v3", inner=False).close()

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.ones(1, np.float32), 1.0, False, False, {}

    gymnasium.register("tests/Nested-v3", entry_point=Nested)
    try:
        with vector("tests/Nested-v3", 2, workers=2, start_method=method) as vec:
            vec.reset(seed=0)
            assert vec.step(np.zeros(2, int))[1].tolist() == [1.0, 1.0]
    finally:
        del gymnasium.registry["tests/Nested-v3"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["script", "stdin", "module"])
def test_a_script_needs_no_main_guard(how, method, tmp_path):
    code = textwrap.dedent(f"""
        import numpy as np
        import seer
        from gymnasium.spaces import Box, Discrete
        from pettingzoo import ParallelEnv

        print("top of the script")
        BOX, PLAIN = Box(-1, 1, (1,)), Discrete(2)

        class Mine(ParallelEnv):
            metadata = {{}}
            possible_agents = ["x_0"]
            def observation_space(self, agent): return BOX
            def action_space(self, agent): return PLAIN
            def reset(self, seed=None, options=None):
                self.agents = ["x_0"]
                return {{"x_0": np.zeros(1, np.float32)}}, {{"x_0": {{}}}}
            def step(self, actions):
                raise MineError("of the script")

        class MineError(Exception): pass

        vec = seer.make_vec(Mine, 2, workers=2, start_method={method!r})
        vec.reset(seed=0)
        try:
            vec.step(vec.sample_actions())
        except MineError as error:  # the very class
            print("caught", error)
    """)
    (tmp_path / "script.py").write_text(code)
    command = {"script": ["script.py"], "stdin": ["-"], "module": ["-m", "script"]}[how]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        input=code if how == "stdin" else None,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["top of the script", "caught of the script"]
    assert done.stdout.count("top of the script") == 1 and done.stderr == ""


@pytest.mark.parametrize("method", METHODS)
def test_unseeded_global_generators_differ_in_workers(method):
    class Drawing(Troubled):
        def draws(self):
            import random

            return random.random(), float(np.random.random())  # noqa: NPY002

    with vector(Drawing, 3, workers=3, start_method=method) as vec:
        assert len({value for pair in vec.call("draws") for value in pair}) == 6


def test_a_factory_that_cannot_be_sent_is_named():
    lock = threading.Lock()
    make = [Troubled, Troubled, lambda: Troubled(tag=lock.locked())]
    with pytest.raises(ConfigError, match="can't be sent to a worker"):
        vector(make, workers=2)
    with vector(make, workers=2, start_method="fork") as vec:
        vec.reset(seed=0)


def test_a_factory_of_a_module_that_workers_cannot_import_is_explained(monkeypatch):
    module = type(sys)("made_by_hand")
    exec("from vector.troubled import Troubled\nclass Mine(Troubled): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    with pytest.raises(ConfigError, match=r"made_by_hand.*importable"):
        vector(module.Mine, 2, workers=2)


def test_workers_print_where_the_caller_prints_now(capfd):
    class Loud(Troubled):
        def reset(self, seed=None, options=None):
            print("a line of the environment", flush=True)
            return super().reset(seed, options)

    with vector(Loud, 1, workers=1) as vec:
        vec.reset(seed=0)
    assert "a line of the environment" in capfd.readouterr().out


# ---- what it takes -----------------------------------------------------------------------------


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def below(process=None):
    """Processes started by this one that still run, without the server that forks."""
    found = []
    for child in (process or psutil.Process()).children(recursive=True):
        try:
            mine = child.ppid() == os.getpid()
            if child.status() != psutil.STATUS_ZOMBIE and not (
                mine and "forkserver" in " ".join(child.cmdline())
            ):
                found.append(child)
        except psutil.NoSuchProcess:
            pass
    return found


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_of_many_vectors(method):
    def once():
        vec = vector(Troubled, 3, workers=2, start_method=method)
        vec.reset(seed=0)
        vec.step(vec.sample_actions())
        vec.close()

    once()
    gc.collect()
    before = descriptors(), threading.active_count()
    for _ in range(4):
        once()
    gc.collect()
    assert (descriptors(), threading.active_count()) == before
    assert not below()


def test_memory_stays_as_it_is():
    make = functools.partial(Troubled, horizon=3)
    with vector(make, 4, workers=2, layout="stacked") as vec:
        vec.reset(seed=0)
        processes = [psutil.Process(), *below()]

        def rss():
            return sum(process.memory_info().rss for process in processes)

        actions = vec.sample_actions()
        for _ in range(1000):
            vec.step(actions)
        before = rss()
        for _ in range(4000):
            vec.step(actions)
        assert rss() - before < 3 * 2**20


def test_memory_that_cannot_be_had_is_an_error():
    with pytest.raises(OutOfMemoryError, match="MiB of shared memory"):
        Memory(2**60)


def test_memory_has_no_name_and_is_reserved():
    before = set(os.listdir("/dev/shm"))
    memory = Memory(10 * 4096)
    assert set(os.listdir("/dev/shm")) == before
    assert os.fstat(memory.fd).st_blocks * 512 >= 10 * 4096
    memory.close_fd()
    assert memory.array(0, (5120,), np.uint64).sum() == 0


def test_two_workers_take_little_memory():
    code = """
        import psutil, seer
        from vector.troubled import Troubled
        import gymnasium, pettingzoo

        def pss(processes):
            return sum(process.memory_full_info().pss for process in processes) / 2**20

        me = psutil.Process()
        alone = pss([me])
        vec = seer.make_vec(Troubled, 8, workers=2)
        vec.reset(seed=0)
        for _ in range(100):
            vec.step(vec.sample_actions())
        print(pss([me, *me.children(recursive=True)]) - alone)
        vec.close()
    """
    tests = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    # 45 MiB, and some more for libraries that other processes share while `alone` is measured
    assert float(done.stdout) < 48


@pytest.mark.parametrize(("method", "limit"), [("forkserver", 0.1), ("fork", 0.1), ("spawn", 1.0)])
def test_start_up_is_quick(method, limit):
    took = []
    for _ in range(6):
        start = time.perf_counter()
        vec = vector(Ledger, 8, workers=2, start_method=method)
        took.append(time.perf_counter() - start)
        vec.close()
    assert min(took[1:]) < limit  # the least: other work on the machine only adds


def test_a_vector_in_a_vectors_environment():
    class Nested(Troubled):
        def __init__(self):
            super().__init__()
            self.inner = vector(Troubled, 2, workers=1)

        def called(self):
            self.inner.reset(seed=3)
            return self.inner.step(self.inner.sample_actions())[1]["a_0"].tolist()

        def close(self):
            self.inner.close()

    with vector(Nested, 2, workers=2) as vec:
        assert vec.call("called") == ([1.0, 1.0],) * 2
    assert not below()


def test_vectors_in_threads():
    failures = []

    def use():
        try:
            with vector(Troubled, 2, workers=1) as vec:
                vec.reset(seed=0)
                for t in range(1, 50):
                    assert vec.step(vec.sample_actions())[1]["a_0"].tolist() == [t, t]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)


def test_an_unknown_start_method_is_refused():
    with pytest.raises(ConfigError, match="forkserver"):
        vector(Troubled, 2, workers=1, start_method="teleport")


def test_server_ends_with_the_interpreter():
    code = (
        "import seer, psutil; from vector.troubled import Troubled\n"
        "vec = seer.make_vec(Troubled, 2, workers=1); vec.reset(seed=0)\n"
        "print(*[p.pid for p in psutil.Process().children(recursive=True)])"
    )
    tests = str(Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2 and done.stderr == "" and done.returncode == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)
