"""What goes wrong in workers, with real signals: it is told, in time, and nothing is left."""

import functools
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest

import seer
from seer.errors import (
    ClosedError,
    ConfigError,
    ForkedError,
    StateError,
    StepTimeoutError,
    WorkerDiedError,
)
from seer.vector.config import ProcessConfig
from seer.vector.remote import RemoteError, pack_error, unpack_error

from .test_process import below, descriptors
from .troubled import HoldingError, Troubled, TwoArgumentsError, UnsayableError

TESTS = str(Path(__file__).resolve().parent.parent)
METHODS = ("forkserver", "spawn", "fork")


def vector(count=4, share=None, *, options=None, **settings):
    make = [functools.partial(Troubled, tag=k, **settings) for k in range(count)]
    return seer.make_vec(make, probe=False, **(share or {"workers": 2}), **(options or {}))


def step(vec):
    return vec.step(vec.sample_actions())


def go_on(vec, count):
    """Receive and send, again and again."""
    for _ in range(count):
        *_, infos = vec.recv()
        vec.send({a: np.zeros(2, int) for a in vec.agents}, infos["env_id"])


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids, within=5.0):
    """Whether processes end in time."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        if not any(map(runs, pids)):
            time.sleep(0.05)  # the last of its threads
            return True
        time.sleep(0.02)
    return False


def check_usable(vec, seed=50):
    """After a fault only reset and close are legal, and reset helps."""
    with pytest.raises(StateError):
        step(vec)
    observations, _ = vec.reset(seed=seed)
    count = vec.num_envs
    assert observations["a_0"][:, 1].tolist() == [seed + k for k in range(count)]
    assert step(vec)[1]["a_1"].tolist() == [1.0] * count


# ---- exceptions --------------------------------------------------------------------------


@pytest.mark.parametrize("share", [{"workers": 2}, {"pool": ProcessConfig(1)}], ids=str)
@pytest.mark.parametrize("env", [0, 3])
@pytest.mark.parametrize(("what", "cls", "text"), [
    ("raise:seventeen", ValueError, "raised seventeen"),
    ("two", TwoArgumentsError, "code 17 at gate"),
    ("lock", HoldingError, "held a lock"),
    ("local", ValueError, "made in a function"),
])  # fmt: skip
def test_exceptions_keep_type_message_traceback_and_index(share, env, what, cls, text, tmp_path):
    once = str(tmp_path / "once")
    with vector(4, share, on={"step": what}, only=env, once=once) as vec:
        vec.reset(seed=0)
        step(vec)
        with pytest.raises(cls, match=text) as caught:
            step(vec)
        error = caught.value
        assert type(error) is cls or what == "local"
        assert error.env == env
        if hasattr(error, "add_note"):
            assert f"environment {env}" in error.__notes__[0]
        if env == 3:  # it comes from a worker
            assert "troubled.py" in str(error.__cause__) and text in str(error.__cause__)
        if what == "two":
            assert (error.code, error.place) == (17, "gate")
        if what == "lock":
            assert error.number == 4711
        check_usable(vec)


def test_exception_of_the_least_environment_comes_first(tmp_path):
    with vector(6, {"workers": 3}, on={"step": "raise:all"}, at=1) as vec:
        vec.reset(seed=0)
        with pytest.raises(ValueError) as caught:
            step(vec)
        assert caught.value.env == 0


def test_exceptions_that_cannot_be_sent_in_any_form_are_named():
    error = unpack_error(pack_error(UnsayableError()))
    assert isinstance(error, UnsayableError | RemoteError)
    assert "UnsayableError" in str(error.__cause__)

    class Stubborn(Exception):  # noqa: N818
        def __reduce__(self):
            raise TypeError("never")

        def __new__(cls, *args):
            if not args:
                raise TypeError("needs arguments")
            return super().__new__(cls, *args)

        def __str__(self):
            return f"stubborn because of {self.reason}"

    stubborn = Stubborn(threading.Lock())
    stubborn.reason = threading.Lock()
    error = unpack_error(pack_error(stubborn))
    assert isinstance(error, RemoteError) and "Stubborn" in error.type_name
    assert "stubborn because of" in str(error)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", ["worker", "caller"])
def test_exception_while_made(share, method, tmp_path):
    log = str(tmp_path / "log")
    only = 3 if share == "worker" else 0
    before = descriptors()
    for _ in range(2):
        with pytest.raises(ValueError, match="raised early") as caught:
            vector(
                4, {"pool": ProcessConfig(2)}, on={"init": "raise:early"}, only=only, log=log,
                options={"start_method": method},
            )  # fmt: skip
        assert caught.value.env == only
        del caught
        assert not below()
    gc.collect()
    assert descriptors() <= before + 1  # the server's
    made = sorted(Path(log).read_text().split()) if Path(log).exists() else []
    assert all(made.count(tag) <= 2 for tag in made) and str(only) not in made


def test_exception_in_reset_render_and_call(tmp_path):
    with vector(on={"reset": "raise:a", "render": "raise:b", "call": "raise:c"}, only=2, at=0,
                once=str(tmp_path / "once")) as vec:  # fmt: skip
        with pytest.raises(ValueError, match="raised a") as caught:
            vec.reset(seed=0)
        assert caught.value.env == 2
        vec.reset(seed=0)
    with vector(on={"render": "raise:b", "call": "raise:c"}, only=2) as vec:
        vec.reset(seed=0)
        for act, text in ((vec.render, "b"), (lambda: vec.call("called"), "c")):
            with pytest.raises(ValueError, match=f"raised {text}") as caught:
                act()
            assert caught.value.env == 2
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 4  # the environments are as they were


def test_exception_in_close_comes_after_all_are_closed(tmp_path):
    log = tmp_path / "log"
    vec = vector(on={"close": "raise:late"}, only=1, log=str(log))
    vec.reset(seed=0)
    with pytest.raises(ValueError, match="raised late"):
        vec.close()
    vec.close()
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"] and not below()


def test_exception_of_an_asynchronous_step(tmp_path):
    with vector(on={"step": "two"}, only=1, once=str(tmp_path / "once"),
                options={"batch_size": 2}) as vec:  # fmt: skip
        vec.async_reset(seed=0)
        with pytest.raises(TwoArgumentsError, match="code 17") as caught:
            go_on(vec, 30)
        assert caught.value.env == 1
        vec.async_reset(seed=9)
        assert len(vec.recv()[-1]["env_id"]) == 2


# ---- death -------------------------------------------------------------------------------


DEATHS = {
    "kill": (-9, "SIGKILL"), "kill:15": (-15, "SIGTERM"), "exit:3": (3, "exit code 3"),
    "segv": (-11, "SIGSEGV"), "sysexit:5": (5, "exit code 5"),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("death", DEATHS)
def test_death_in_a_step_is_noticed_and_told(death, method, tmp_path, capfd):
    options = {"start_method": method}
    with vector(on={"step": death}, only=2, once=str(tmp_path / "once"), options=options) as vec:
        vec.reset(seed=0)
        step(vec)
        start = time.perf_counter()
        with pytest.raises(WorkerDiedError) as caught:
            step(vec)
        took = time.perf_counter() - start
        error = caught.value
        code, text = DEATHS[death]
        assert error.exitcode == code and text in str(error)
        assert error.envs == (2, 3) and "environments 2, 3" in str(error) and error.worker == 1
        assert gone([error.pid]) and took < 2.0
        check_usable(vec)
    assert not below()


def test_death_is_noticed_within_a_tenth_of_a_second(tmp_path):
    took = []
    for k in range(4):
        with vector(on={"step": "kill"}, only=3, once=str(tmp_path / f"{k}")) as vec:
            vec.reset(seed=0)
            step(vec)
            start = time.perf_counter()
            with pytest.raises(WorkerDiedError):
                step(vec)
            took.append(time.perf_counter() - start)
    assert min(took) < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_death_while_resting_is_told_by_the_next_call(method):
    calls = [step, lambda v: v.reset(seed=1), lambda v: v.call("called"), lambda v: v.render()]
    for act in calls:
        with vector(options={"start_method": method}) as vec:
            vec.reset(seed=0)
            pids = [process.pid for process in below()]
            os.kill(pids[-1], signal.SIGKILL)
            assert gone(pids[-1:])
            if act is calls[1]:  # a reset replaces who is gone
                act(vec)
            else:
                with pytest.raises(WorkerDiedError, match="SIGKILL"):
                    act(vec)
                vec.reset(seed=1)
            assert step(vec)[1]["a_0"].tolist() == [1.0] * 4


@pytest.mark.parametrize("where", ["init", "reset", "render", "call"])
def test_death_elsewhere(where):
    started = time.perf_counter()

    def use():
        with vector(on={where: "exit"}, at=0, only=3) as vec:
            vec.reset(seed=0)
            vec.render()
            vec.call("called")

    with pytest.raises(WorkerDiedError, match="exit code 3") as caught:
        use()
    assert caught.value.envs == (2, 3)
    assert time.perf_counter() - started < 10 and not below()


def test_death_in_close_is_no_error():
    vec = vector(on={"close": "kill"}, only=1)
    vec.reset(seed=0)
    start = time.perf_counter()
    vec.close()
    assert time.perf_counter() - start < 2 and not below()


def test_death_while_in_flight(tmp_path):
    with vector(on={"step": "kill"}, only=1, once=str(tmp_path / "once"),
                options={"batch_size": 2}) as vec:  # fmt: skip
        vec.async_reset(seed=0)
        with pytest.raises(WorkerDiedError) as caught:
            go_on(vec, 2000)
        assert caught.value.envs == (0, 1)
        vec.async_reset(seed=0)
        assert len(vec.recv()[-1]["env_id"]) == 2


# ---- time --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sleep:60", "hold:60", "stop"])
def test_a_step_that_hangs_is_an_error_in_time(how, tmp_path):
    options = {"timeout": 0.4}
    with vector(5, on={"step": how}, only=3, once=str(tmp_path / "once"), options=options) as vec:
        vec.reset(seed=0)
        step(vec)
        start = time.perf_counter()
        with pytest.raises(StepTimeoutError) as caught:
            step(vec)
        assert 0.4 <= time.perf_counter() - start < 1.5
        assert caught.value.envs == (3, 4) and caught.value.timeout == 0.4
        assert "environment 3 hangs" in str(caught.value)
        pids = [process.pid for process in below()]
        check_usable(vec)
        assert not gone(pids, 0.1)  # the other worker is as it was
    assert not below()


def test_close_after_a_step_that_hangs_does_not_wait():
    vec = vector(on={"step": "sleep:60"}, at=1, only=0, options={"timeout": 0.2})
    vec.reset(seed=0)
    with pytest.raises(StepTimeoutError, match="environment"):
        step(vec)
    start = time.perf_counter()
    vec.close()
    assert time.perf_counter() - start < 2 and not below()


@pytest.mark.parametrize("where", ["reset", "call", "render"])
def test_other_calls_that_hang(where):
    with vector(on={where: "sleep:60"}, at=1, only=3, options={"timeout": 0.3}) as vec:
        vec.reset(seed=0)
        act = {"reset": lambda: vec.reset(seed=0), "call": lambda: vec.call("called"),
               "render": vec.render}[where]  # fmt: skip
        start = time.perf_counter()
        with pytest.raises(StepTimeoutError):
            act()
        assert time.perf_counter() - start < 1.5


def test_an_asynchronous_step_that_hangs():
    with vector(on={"step": "sleep:60"}, at=1, only=3,
                options={"timeout": 0.3, "batch_size": 4}) as vec:  # fmt: skip
        vec.async_reset(seed=0)
        vec.recv()
        vec.send(vec.sample_actions())
        with pytest.raises(StepTimeoutError) as caught:
            vec.recv()
        assert caught.value.envs == (3,)


def test_slow_is_not_late():
    with vector(on={"step": "sleep:0.3"}, at=1, options={"timeout": 5}) as vec:
        vec.reset(seed=0)
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 4


# ---- restart -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("death", ["kill", "exit"])
def test_restart_truncates_and_goes_on(death, mode, tmp_path):
    options = {"on_worker_death": "restart", "autoreset": mode, "layout": "stacked"}
    with vector(on={"step": death}, only=2, once=str(tmp_path / "once"), options=options) as vec:
        vec.reset(seed=10)
        step(vec)
        observations, rewards, terms, truncs, infos = step(vec)
        lost = [False, False, True, True]
        assert rewards["a"].tolist() == [[2.0] * 2] * 2 + [[0.0] * 2] * 2
        assert truncs["a"].tolist() == [[x] * 2 for x in lost] and not terms["a"].any()
        assert vec.episode_over.tolist() == lost and vec.acted.all()
        assert infos["worker_restarted"].tolist() == [0, 0, 1, 1]
        assert infos["_worker_restarted"].tolist() == lost
        seeds = [12 + 2**32, 13 + 2**32]
        if mode == "same_step":
            assert observations["a"][2:, 0, 1].tolist() == seeds and vec.live.all()
            assert infos["final_obs"]["a_0"][2].tolist() == [2, 12, 0, 1]
        else:
            assert observations["a"][2:, 0].tolist() == [[2, 12, 0, 1], [3, 13, 0, 1]]
            assert vec.live[:, 0].tolist() == [True, True, False, False]
            observations, rewards, _, truncs, infos = step(vec)
            assert observations["a"][2:, 0, 1].tolist() == seeds and vec.live.all()
            assert vec.was_reset.tolist() == lost and not truncs["a"].any()
            assert rewards["a"].tolist() == [[3.0] * 2] * 2 + [[0.0] * 2] * 2
        assert "worker_restarted" not in step(vec)[4]
    assert not below()


def test_restart_in_a_reset(tmp_path):
    options = {"on_worker_death": "restart"}
    with vector(on={"reset": "exit"}, at=0, only=2, once=str(tmp_path / "once"),
                options=options) as vec:  # fmt: skip
        observations, infos = vec.reset(seed=10)
        assert observations["a_0"][:, 1].tolist() == [10, 11, 12 + 2**32, 13 + 2**32]
        assert infos["_worker_restarted"].tolist() == [False, False, True, True]


def test_restart_at_most_three_times_a_minute():
    with vector(on={"step": "exit"}, at=1, only=2, options={"on_worker_death": "restart"}) as vec:
        vec.reset(seed=10)
        for _ in range(6):  # each second one is the first of an episode
            step(vec)
        with pytest.raises(WorkerDiedError, match="exit code 3"):
            step(vec)
        vec.reset(seed=3)  # replaces it once more, by the user's own wish
    assert not below()


def test_restart_of_asynchronous_environments(tmp_path):
    options = {"on_worker_death": "restart", "batch_size": 1, "layout": "stacked"}
    with vector(on={"step": "kill"}, only=1, once=str(tmp_path / "once"), options=options) as vec:
        vec.async_reset(seed=10)
        told, seeds = set(), {}
        until = time.monotonic() + 20
        wanted = {0: 10 + 2**32, 1: 11 + 2**32, 2: 12, 3: 13}
        while seeds != wanted and time.monotonic() < until:
            observations, rewards, _, truncs, infos = vec.recv()
            (env,) = infos["env_id"].tolist()
            seeds[env] = observations["a"][0, 0, 1]
            if "worker_restarted" in infos:
                told.add(env)
                assert truncs["a"].all() and not rewards["a"].any()
            vec.send(vec.sample_actions(), [env])
        assert told == {0, 1} and seeds == wanted


# ---- Ctrl-C ------------------------------------------------------------------------------


def run_python(code, ready=None, sig=None, to_group=False, timeout=40, wait=0.3, args=()):
    """A script in its own session: (return code, output, errors)."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([TESTS, *sys.path])}
    head = (
        "import functools, os, signal, sys, threading, time\nimport numpy as np\nimport seer\n"
        "from vector.troubled import Troubled\nfrom vector.test_faults_vector import *\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", *args, "-c", head + textwrap.dedent(code)], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    out = ""
    if ready:
        for line in process.stdout:
            out += line
            if ready in line:
                break
        time.sleep(wait)
        (os.killpg if to_group else os.kill)(process.pid, sig)
    try:
        more, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out + more, errors


@pytest.mark.parametrize("share", ["workers=2", "pool=seer.vector.ProcessConfig(1)"])
def test_ctrl_c_ends_a_step_and_reset_goes_on(share):
    code, out, errors = run_python(
        f"""
        vec = seer.make_vec([functools.partial(Troubled, tag=k, on={{"step": "sleep:1.5"}}, at=1,
            only=3) for k in range(4)], {share})
        vec.reset(seed=0)
        print("READY")
        start = time.perf_counter()
        try:
            step(vec)
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - start < 1.3)
        check_usable(vec)
        vec.close()
        print("done", below())
        """,
        ready="READY", sig=signal.SIGINT, to_group=True,
    )  # fmt: skip
    assert code == 0, errors
    assert out.split("\n")[1:3] == ["interrupted True", "done []"] and errors == ""


def test_ctrl_c_that_nobody_catches_ends_everything_with_one_traceback():
    code, out, errors = run_python(
        """
        vec = vector(4)
        vec.reset(seed=0)
        print("PIDS", *[p.pid for p in psutil.Process().children(recursive=True)])
        while True: step(vec)
        """,
        ready="PIDS", sig=signal.SIGINT, to_group=True,
    )  # fmt: skip
    assert code in (1, -signal.SIGINT) and errors.count("Traceback") == 1, errors
    assert "KeyboardInterrupt" in errors
    pids = [int(pid) for pid in out.split("\n")[0].split()[1:]]
    assert len(pids) == 3 and gone(pids)


def test_ctrl_c_while_made_and_while_reset():
    code, out, errors = run_python(
        """
        for where in ("init", "reset"):
            on = {where: "sleep:5"}
            make = [functools.partial(Troubled, tag=k, on=on, at=0) for k in range(2)]
            timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                vec = seer.make_vec(make, workers=2)
                vec.reset(seed=0)
            except KeyboardInterrupt:
                print("interrupted", where)
            if where == "reset":
                vec.close(timeout=0.2)
            print(below())
        """,
    )
    assert out.split("\n")[:4] == ["interrupted init", "[]", "interrupted reset", "[]"], errors
    assert code == 0 and errors == ""


# ---- the caller's end --------------------------------------------------------------------


STAYING = """
    class Staying(Troubled):
        def __init__(self, **options):
            super().__init__(**options)
            self.helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            self.helper.start()
            self.other = __import__("subprocess").Popen(["sleep", "60"])
    vec = seer.make_vec([functools.partial(Staying, tag=k) for k in range(2)], workers=2,
        start_method={method!r})
    vec.reset(seed=0)
    pids = [p.pid for p in psutil.Process().children(recursive=True)]
    print("PIDS", *pids)
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "os._exit(7)", "raise ValueError('user')",
                                 "vec.close()", "sys.exit(4)"])  # fmt: skip
def test_nothing_is_left_however_the_caller_ends(end, method):
    before = set(os.listdir("/dev/shm"))
    code = textwrap.dedent(STAYING.format(method=method))
    if end.startswith("SIG"):
        got, out, errors = run_python(
            code + "while True: step(vec)", ready="PIDS", sig=getattr(signal, end)
        )
        assert got == -getattr(signal, end)
    else:
        got, out, errors = run_python(code + end)
    pids = [int(pid) for pid in out.split("\n")[0].split()[1:]]
    assert len(pids) >= 6 and gone(pids, 3.0)
    assert set(os.listdir("/dev/shm")) == before
    assert errors.count("Traceback") == (1 if "raise" in end else 0), errors


def test_a_stopped_worker_ends_with_its_caller():
    code = """
        vec = vector(2)
        vec.reset(seed=0)
        pids = [p.pid for p in below()]
        os.kill(pids[0], signal.SIGSTOP)
        print("PIDS", *pids)
        time.sleep(60)
    """
    _, out, _ = run_python(code, ready="PIDS", sig=signal.SIGKILL)
    assert gone([int(pid) for pid in out.split()[1:]])


def test_the_interpreter_ends_in_time_with_vectors_in_every_state(tmp_path):
    log = tmp_path / "log"
    code, out, errors = run_python(
        f"""
        new, reset, failed, kept = (vector(2, log={str(log)!r}) for _ in range(4))
        reset.reset(seed=0)
        flying = vector(2, log={str(log)!r}, options={{"batch_size": 1}})
        flying.async_reset(seed=0)
        failed._backend._crew.links[0].child.kill()
        import atexit, multiprocessing
        helper = multiprocessing.Process(target=time.sleep, args=(0.2,))
        helper.start()
        print("last line")
        """
    )
    assert code == 0 and errors == "" and "last line" in out
    assert len(log.read_text().split()) == 9  # all but the one that was killed, once each


# ---- close -------------------------------------------------------------------------------


def test_close_any_time_and_twice(tmp_path):
    log = tmp_path / "log"
    for state in ("new", "reset", "stepped", "flying", "collected", "failed"):
        log.write_text("")
        on = {"step": "raise:x"} if state == "failed" else None
        vec = vector(on=on, at=1, log=str(log), options={"batch_size": 4})
        if state != "new":
            vec.reset(seed=0)
        if state == "stepped":
            step(vec)
        if state == "flying":
            vec.send(vec.sample_actions())
        if state == "failed":
            with pytest.raises(ValueError):
                step(vec)
        if state != "collected":
            vec.close()
            vec.close()
            with pytest.raises(ClosedError):
                vec.reset(seed=0)
        del vec
        gc.collect()
        assert sorted(log.read_text().split()) == ["0", "1", "2", "3"], state
        assert not below()


def test_close_from_another_thread_and_from_a_signal_handler(tmp_path):
    for how in ("thread", "handler"):
        vec = vector(on={"step": "sleep:0.6"}, at=1)
        vec.reset(seed=0)
        if how == "thread":
            timer = threading.Timer(0.2, vec.close)
        else:
            signal.signal(signal.SIGALRM, lambda *_, vec=vec: vec.close())
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGALRM))
        timer.start()
        start = time.perf_counter()
        with pytest.raises(ClosedError):
            step(vec)
        assert time.perf_counter() - start < 3
        timer.join()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        assert not below()


def test_close_kills_what_does_not_end_in_time():
    vec = vector(on={"close": "sleep:60"}, only=0)
    vec.reset(seed=0)
    start = time.perf_counter()
    vec.close(timeout=0.3)
    assert time.perf_counter() - start < 2 and not below()


@pytest.mark.parametrize("method", METHODS)
def test_close_ends_what_environments_started(method):
    class Starting(Troubled):
        def reset(self, seed=None, options=None):
            if self.episode < 0:
                helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
                helper.start()
                subprocess.Popen(["sleep", "60"])
                threading.Thread(target=time.sleep, args=(60,)).start()
            return super().reset(seed, options)

    with seer.make_vec(Starting, 2, workers=2, start_method=method) as vec:
        vec.reset(seed=0)
        assert len(below()) == 6
        start = time.perf_counter()
    assert time.perf_counter() - start < 3 and not below()


# ---- forks of the caller -----------------------------------------------------------------


def test_a_fork_of_the_caller_cannot_use_or_disturb_the_vector():
    vec = vector()
    vec.reset(seed=0)
    step(vec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for act in (lambda: vec.reset(seed=0), lambda: step(vec), lambda: vec.call("called")):
                try:
                    act()
                except ForkedError:
                    code += 1
            vec.close()
            del vec
            gc.collect()
            with seer.make_vec(Troubled, 2, workers=1) as mine:  # one of its own
                mine.reset(seed=0)
                code += step(mine)[1]["a_0"].tolist() == [1.0, 1.0]
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    for t in (2, 3):
        assert step(vec)[1]["a_0"].tolist() == [float(t)] * 4
    vec.close()
    assert not below()


def test_a_fork_that_outlives_the_caller_keeps_no_worker_alive():
    code = """
        vec = vector(2)
        vec.reset(seed=0)
        pids = [p.pid for p in psutil.Process().children(recursive=True)]
        if os.fork() == 0:
            os.close(1), os.close(2)
            time.sleep(15)
            os._exit(0)
        print("PIDS", *pids)
        time.sleep(60)
    """
    _, out, _ = run_python(code, ready="PIDS", sig=signal.SIGKILL)
    assert gone([int(pid) for pid in out.split()[1:]], 3.0)


def test_multiprocessing_of_the_user_is_left_alone():
    before = multiprocessing.get_start_method(allow_none=True)
    with vector() as vec:
        vec.reset(seed=0)
        assert multiprocessing.get_start_method(allow_none=True) == before
        assert multiprocessing.active_children() == []
        helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.05,))
        helper.start()
        step(vec)
        helper.join()
        assert helper.exitcode == 0
    done = subprocess.run(["true"], check=False)
    assert done.returncode == 0


def test_a_server_that_was_killed_is_started_again():
    vector().close()
    servers = [
        child for child in psutil.Process().children() if "forkserver" in " ".join(child.cmdline())
    ]
    for server in servers:
        server.kill()
    with vector() as vec:
        vec.reset(seed=0)
        assert step(vec)[1]["a_0"].tolist() == [1.0] * 4


def test_replaced_environments_must_be_of_the_same_kind(tmp_path):
    class Changing(Troubled):
        def __init__(self, path):
            super().__init__()
            if os.path.exists(path):
                self.possible_agents = ["b_0", "b_1"]

    path = str(tmp_path / "changed")
    with seer.make_vec(functools.partial(Changing, path), 2, workers=1) as vec:
        vec.reset(seed=0)
        Path(path).touch()
        (worker,) = below()
        worker.kill()
        assert gone([worker.pid])
        with pytest.raises(ConfigError, match="other agents"):
            vec.reset(seed=0)
