"""Vectors that are interrupted, lose workers or get odd arguments at the worst of moments."""

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import MultiBinary

import seer
from seer.errors import ClosedError, ConfigError, WorkerDiedError
from seer.vector import ProcessConfig

from .test_faults_vector import gone
from .troubled import Troubled
from .worlds import Ledger

TESTS = str(Path(__file__).resolve().parent.parent)


class Placed(Ledger):
    """Says in which process it lives."""

    def process(self):
        return os.getpid()


class SlowToBegin(Placed):
    def reset(self, seed=None, options=None):
        time.sleep(0.5)
        return super().reset(seed, options)


class InterruptedAtClose(Troubled):
    """As if Ctrl-C came while the first environment is closed."""

    def close(self):
        super().close()
        if self.tag == 0:
            raise KeyboardInterrupt


class NoAttributes(Exception):  # noqa: N818
    def __setattr__(self, name, value):
        raise RuntimeError(f"{name} can't be set")


class NoNotes(Exception):  # noqa: N818
    @property
    def __notes__(self):
        raise RuntimeError("there are no notes")


class Refusing(Ledger):
    def __init__(self, error, **more):
        super().__init__(**more)
        self.error = error

    def step(self, actions):
        raise self.error()


class Binary(Ledger):
    """Shows each agent its action."""

    def __init__(self, count):
        super().__init__()
        self.boxes = self.choices = dict.fromkeys(self.possible_agents, MultiBinary(count))
        self.seen = {a: np.zeros(self.boxes[a].shape, np.int8) for a in self.possible_agents}

    def look(self, agent):
        return self.seen[agent]

    def step(self, actions):
        self.seen = dict(actions)
        return super().step(actions)


def placed(cls=Placed, **options):
    make = [functools.partial(cls, tag=k, horizon=100) for k in range(4)]
    return seer.make_vec(make, probe=False, workers=1, **options)


def kill_worker(vec):
    os.kill(vec.call("process", envs=[0])[0], signal.SIGKILL)
    time.sleep(0.1)


def script(text, *arguments):
    code = f"import sys; sys.path.insert(0, {TESTS!r})\n" + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# ---- Ctrl-C ------------------------------------------------------------------------------


def test_ctrl_c_while_the_first_worker_starts_spoils_no_later_vector():
    told = script("""
        import functools
        import seer
        from seer.vector import forkclient
        from vector.worlds import Ledger

        make = [functools.partial(Ledger, tag=k) for k in range(4)]
        record, calls = forkclient.Client._record, []

        def interrupted(self):
            calls.append(0)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return record(self)

        forkclient.Client._record = interrupted
        try:
            seer.make_vec(make, workers=2, probe=False)
        except KeyboardInterrupt:
            print("interrupted")
        for _ in range(3):
            with seer.make_vec(make, workers=2, probe=False) as vec:
                vec.reset(seed=1)
                print(vec.step(vec.sample_actions())[0]["a"][:, 0].tolist())
    """)
    assert told == ["interrupted"] + ["[0.0, 1.0, 2.0, 3.0]"] * 3


@pytest.mark.parametrize(
    "share", [{"backend": "serial"}, {"pool": ProcessConfig(workers=2, caller_share=0.5)}]
)
def test_ctrl_c_in_close_still_closes_every_environment(share, tmp_path):
    log, pids = tmp_path / "log", tmp_path / "pids"
    make = [functools.partial(InterruptedAtClose, tag=k, log=str(log), pids=str(pids))
            for k in range(6)]  # fmt: skip
    vec = seer.make_vec(make, probe=False, **share)
    vec.reset(seed=1)
    with pytest.raises(KeyboardInterrupt):
        vec.close()
    assert sorted(log.read_text().split()) == list("012345")
    workers = {int(line.split()[1]) for line in pids.read_text().splitlines()} - {os.getpid()}
    assert gone(workers, within=1.0)
    vec.close()
    assert len(log.read_text().split()) == 6


# ---- workers that end --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_partial_reset_after_a_death_truncates_the_others(mode):
    with placed(on_worker_death="restart", autoreset=mode) as vec:
        vec.reset(seed=1)
        vec.step(vec.sample_actions())
        kill_worker(vec)
        seen, _ = vec.reset(options={"reset_mask": np.array([True, False, False, False])})
        assert seen["a"][:, 3].tolist() == [0, 1, 1, 1]
        for _ in range(2):
            seen, _, _, truncated, infos = vec.step(vec.sample_actions())
            if "worker_restarted" in infos:
                assert truncated["a"].tolist() == [False, True, True, True]
                assert vec.episode_over.tolist() == [False, True, True, True]
                assert infos["_worker_restarted"].tolist() == [False, True, True, True]
                told = seen["a"][:, 3].tolist()
        assert told == ([1, 1, 1, 1] if mode == "next_step" else [1, 0, 0, 0])
        assert seen["a"][:, 3].tolist() == ([2, 0, 0, 0] if mode == "next_step" else [2, 1, 1, 1])


def test_partial_reset_after_a_death_does_not_pass_over_lost_episodes():
    with placed() as vec:
        vec.reset(seed=1)
        vec.step(vec.sample_actions())
        kill_worker(vec)
        with pytest.raises(WorkerDiedError):
            vec.reset(options={"reset_mask": np.array([True, False, False, False])})
        seen, _ = vec.reset(seed=1)
        assert seen["a"][:, 3].tolist() == [0, 0, 0, 0]
        assert vec.step(vec.sample_actions())[0]["a"][:, 3].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_death_with_results_that_were_not_received_is_told_with_the_next(mode):
    with placed(on_worker_death="restart", autoreset=mode, batch_size=1) as vec:
        vec.async_reset(seed=1)
        for _ in range(4):
            vec.recv()
        process = vec.call("process", envs=[0])[0]
        actions = {agent: np.zeros(4, int) for agent in vec.agents}
        vec.send(actions, range(4))
        time.sleep(0.3)
        os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
        one = {agent: np.zeros(1, int) for agent in vec.agents}
        for env in range(4):
            *_, infos = vec.recv()
            assert infos["env_id"].tolist() == [env]
            assert "worker_restarted" not in infos
            vec.send(one, [env])
        for _ in range(4):
            _, _, _, truncated, infos = vec.recv()
            assert truncated["a"].tolist() == [True]
            assert infos["worker_restarted"].tolist() == [1]


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_death_in_an_asynchronous_reset_begins_the_episode_again(mode):
    with placed(SlowToBegin, on_worker_death="restart", autoreset=mode, batch_size=4) as vec:
        process = vec.call("process", envs=[0])[0]
        vec.async_reset(seed=1)
        time.sleep(0.2)
        os.kill(process, signal.SIGKILL)
        seen, *_ = vec.recv()
        assert seen["a"][:, 3].tolist() == [0, 0, 0, 0]
        assert not vec.was_reset.any()
        assert not vec.episode_over.any()
        assert vec.live.all()
        vec.send({agent: np.zeros(4, int) for agent in vec.agents})
        assert vec.recv()[0]["a"][:, 3].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("closed", ["1", "0, 1, 2"])
def test_callers_without_streams_have_workers_too(closed, tmp_path):
    done = tmp_path / "done"
    code = f"""
import os, sys
sys.path.insert(0, {TESTS!r})
import functools, seer
from vector.worlds import Ledger
with seer.make_vec([functools.partial(Ledger, tag=k) for k in range(2)], workers=2) as vec:
    vec.reset(seed=1)
    open({str(done)!r}, "w").write(str(vec.step(vec.sample_actions())[1]["a"].tolist()))
"""
    start = (
        f"import os, sys\nfor fd in ({closed},): os.close(fd)\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {code!r}])"
    )
    subprocess.run([sys.executable, "-c", start], timeout=60, check=True)
    assert done.read_text() == "[1.0, 101.0]"


# ---- what is given -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [{"backend": "serial"}, {"workers": 1}])
@pytest.mark.parametrize("error", [NoAttributes, NoNotes])
def test_exceptions_that_take_no_attributes_keep_their_class(error, share):
    with seer.make_vec([functools.partial(Refusing, error)], probe=False, **share) as vec:
        vec.reset(seed=1)
        with pytest.raises(error):
            vec.step(vec.sample_actions())


def test_environments_of_a_script_may_use_the_package():
    told = script("""
        import seer
        from vector.worlds import Ledger

        class Mine(Ledger):
            def version(self):
                return seer.errors.SeerError.__name__

        with seer.make_vec(Mine, 2, workers=1, probe=False) as vec:
            print(*vec.call("version"))
    """)
    assert told == ["SeerError SeerError"]


@pytest.mark.parametrize("env", [Ledger, "uav_swarm"])
@pytest.mark.parametrize("groups", [{"a": 1}, {"a": "a"}, 3, np.array([1, 2]), ["a"]])
def test_groups_that_are_none_are_refused(env, groups):
    with pytest.raises(ConfigError, match="groups"):
        seer.make_vec(env, 2, groups=groups, layout="stacked", probe=False)


def test_a_timeout_beyond_all_numbers_is_refused():
    with pytest.raises(ConfigError, match="finite"):
        seer.make_vec(Ledger, 2, timeout=10**400)


@pytest.mark.parametrize("layout", ["dict", "stacked", "flat"])
@pytest.mark.parametrize("count", [1, 3, (2, 2)])
def test_small_multi_binary_spaces_are_arrays(count, layout):
    make = functools.partial(Binary, count)
    with seer.make_vec(make, 2, layout=layout, backend="serial") as vec:
        seen, _ = vec.reset(seed=1)
        actions = vec.action_space.sample() if layout == "flat" else vec.sample_actions()
        after = vec.step(actions)[0]
        if layout != "flat":
            name = next(iter(after))
            seen, actions, after = seen[name], actions[name], after[name]
        assert not seen.any()
        assert after.dtype == np.int8
        assert np.array_equal(after, actions)


@pytest.mark.parametrize("envs", [5.5, "0", [0.5]])
def test_environments_that_are_no_numbers_are_refused(envs):
    with placed(batch_size=4) as vec:
        vec.async_reset(seed=1)
        vec.recv()
        with pytest.raises(ConfigError, match="indices"):
            vec.call("state", envs=envs)
        with pytest.raises(ConfigError, match="indices"):
            vec.send({agent: np.zeros(1, int) for agent in vec.agents}, envs)


@pytest.mark.parametrize("share", [{"backend": "serial"}, {"workers": 1}])
def test_close_by_another_thread_ends_a_loop_of_steps(share):
    vec = seer.make_vec(Ledger, 2, probe=False, **share)
    vec.reset(seed=1)
    raised = []

    def loop():
        try:
            for _ in range(100_000):
                vec.step(vec.sample_actions())
        except ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    time.sleep(0.2)
    vec.close()
    thread.join(5.0)
    assert not thread.is_alive()
    assert len(raised) == 1
