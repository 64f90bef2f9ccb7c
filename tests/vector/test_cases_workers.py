"""What went wrong for others with worker processes: pickling, start, faults, ends, leaks."""

import contextlib
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
import traceback
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
import threadpoolctl

from seer.errors import ClosedError, SeerError, StepTimeoutError, WorkerDiedError

from . import case_worlds
from .case_worlds import Locked, NeedsLock, Random, Slow
from .pilot import Pilot, copies
from .troubled import Troubled, TwoArgumentsError
from .worlds import Ledger

METHODS = ("forkserver", "spawn", "fork")
TESTS = Path(__file__).resolve().parents[1]


def workers_alive():
    """Processes below this one that may run users' code: all but the fork server itself."""
    here = os.getpid()
    alive = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            server = process.ppid() == here and "forkserver" in " ".join(process.cmdline())
            if not server and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def ended(pids, seconds=5.0):
    """Whether none of them is left after a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        left = [p for p in pids if psutil.pid_exists(p)
                and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]  # fmt: skip
        if not left:
            return True
        time.sleep(0.02)
    return False


def script(body, *, send=None, main=True, timeout=60, group=False):
    """Run a program; send it a signal once it prints "ready".

    Returns:
        Its exit code, what it printed, and what it complained.
    """
    head = """
        import functools, os, sys, time
        from cases import make_vec
        from vector.case_worlds import *
        from vector.pilot import Pilot, copies
        from vector.worlds import Ledger
    """
    text = textwrap.dedent(head) + (
        f"if __name__ == '__main__':\n{textwrap.indent(textwrap.dedent(body), '    ')}"
        if main else textwrap.dedent(body)
    )  # fmt: skip
    path = Path(os.environ["SEER_CASE_FOLDER"]) / "program.py"
    path.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-u", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=group, env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    printed = ""
    if send is not None:
        for line in process.stdout:
            printed += line
            if "ready" in line:
                break
        time.sleep(0.3)
        (os.killpg if group else os.kill)(process.pid, send)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s:\n{printed}{out}\n{err}")
    return process.returncode, printed + out, err


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SEER_CASE_FOLDER", str(tmp_path))


# ---- what travels ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_factories_travel_and_instances_never_do(method):
    class Here(Locked):  # a local class, with a lock in each instance
        pass

    closed_over = 30
    factories = [lambda k=k: Here(tag=closed_over + k) for k in range(2)]
    with Pilot(factories, workers=2, start_method=method) as pilot:
        assert pilot.reset()[0][1]["a"].tolist() == [31, 0, 0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_every_start_method_gives_what_one_process_gives(method):
    def play(**options):
        with Pilot(copies(Random, 3, dies={"b": 2}), **options) as pilot:
            rows = [pilot.reset(5)[0]] + [pilot.step()[0] for _ in range(9)]
            return [[{a: v.tolist() for a, v in env.items()} for env in row] for row in rows]

    assert play(workers=2, start_method=method) == play()


def test_what_the_main_program_registered_and_defined_is_known_to_workers():
    code, out, err = script("""
        import gymnasium
        class Mine(Ledger):
            pass
        gymnasium.register("mine/Cart-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
        import seer
        for method in ("spawn", "forkserver"):
            with Pilot(copies(Mine, 2), workers=2, start_method=method) as pilot:
                print(pilot.reset()[0][1]["a"].tolist())
            vec = seer.make_vec("mine/Cart-v0", 2, workers=2, start_method=method)
            print(vec.reset(seed=0)[0].shape)
            vec.close()
    """)
    assert (code, out.split("\n")[:4]) == (0, ["[1.0, 0.0, 0.0, 0.0]", "(2, 4)"] * 2), err


@pytest.mark.parametrize("method", METHODS)
def test_script_without_a_main_guard_works_or_is_told_why(method):
    code, out, err = script(
        f"""
        vec = make_vec(copies(Ledger, 2), workers=2, start_method={method!r})
        vec.reset(seed=0)
        vec.close()
        print("worked")
        """,
        main=False,
    )
    assert "__del__" not in err
    if code:
        assert "__main__" in err and err.count("Traceback") == 1, err
    else:
        assert out.strip() == "worked" and not err


def test_main_program_from_standard_input_works():
    text = ("from cases import make_vec\nfrom vector.pilot import copies\n"
            "from vector.worlds import Ledger\nvec = make_vec(copies(Ledger, 2), workers=2)\n"
            "print(vec.reset(seed=0)[0][1]['a'].tolist()); vec.close()\n")  # fmt: skip
    done = subprocess.run([sys.executable], input=text, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(TESTS)})  # fmt: skip
    assert done.stdout.strip() == "[1.0, 0.0, 0.0, 0.0]", done.stderr


def test_global_start_method_is_not_touched():
    before = multiprocessing.get_start_method(allow_none=True)
    with Pilot(copies(Ledger, 2), workers=2, start_method="spawn") as pilot:
        pilot.reset()
        assert multiprocessing.get_start_method(allow_none=True) == before


class _Simulator(Ledger):
    """Has a process of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=time.sleep, args=(60,))
        self.process.start()

    def running(self):
        return self.process.pid

    def close(self):
        self.process.kill()
        self.process.join()


def test_worlds_may_start_processes_of_their_own():
    with Pilot(copies(_Simulator, 2), workers=2, daemon=False) as pilot:
        pilot.reset()
        pids = pilot.vec.call("running")
        assert all(psutil.pid_exists(pid) for pid in pids)
        assert len(workers_alive()) == 4
    assert ended(pids)


def test_lock_held_by_a_thread_of_the_caller_blocks_nobody():
    with case_worlds.LOCK, Pilot(copies(NeedsLock, 2), workers=2) as pilot:
        result = []
        thread = threading.Thread(target=lambda: result.append(pilot.reset()), daemon=True)
        thread.start()
        thread.join(20)
        assert result, "a worker waits for a lock that nobody in it holds"


def test_vector_may_be_made_in_one_thread_and_used_in_others():
    made = []
    for what in (
        lambda: made.append(Pilot(copies(Ledger, 2), workers=2, start_method="fork")),
        lambda: made.append(made[0].reset()),
        lambda: made.append(made[0].step()),
        lambda: made[0].vec.close(),
    ):
        thread = threading.Thread(target=what)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert made[2][0][1]["a"].tolist() == [1, 0, 0, 1]


# ---- faults ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("raise:boom", ValueError, "boom"),
        ("two", TwoArgumentsError, "code 17 at gate"),
        ("lock", RuntimeError, "held a lock"),
        ("local", ValueError, "made in a function"),
    ],
)
def test_errors_of_worlds_keep_type_text_and_place(workers, what, kind, text):
    factories = copies(functools.partial(Troubled, on={"step": what}, at=2, only=1), 3)
    pilot = Pilot(factories, workers=workers)
    pilot.reset()
    pilot.step()
    with pytest.raises(Exception, match=text) as caught:
        pilot.step()
    assert isinstance(caught.value, kind) or type(caught.value).__name__ == kind.__name__
    told = f"{caught.value} {getattr(caught.value, '__notes__', '')} {caught.value.__cause__}"
    assert "environment 1" in told or getattr(caught.value, "env", None) == 1
    assert "troubled.py" in "".join(_traceback(caught.value))  # where it happened
    with pytest.raises(SeerError):
        pilot.step()
    pilot.vec.close()
    assert not workers_alive()


def _traceback(error):
    return traceback.format_exception(type(error), error, error.__traceback__)


@pytest.mark.parametrize(("what", "how"), [("kill", "SIGKILL|signal 9|-9"), ("exit:3", "3")])
def test_dead_worker_is_named_with_its_environments_and_how_it_ended(what, how):
    factories = copies(functools.partial(Troubled, on={"step": what}, at=2, only=1), 3)
    pilot = Pilot(factories, workers=3)
    pilot.reset()
    pilot.step()
    start = time.monotonic()
    with pytest.raises(WorkerDiedError, match=how) as caught:
        pilot.step()
    assert time.monotonic() - start < 1.0
    assert "1" in str(caught.value)
    pilot.vec.close()
    assert not workers_alive()


def test_step_that_takes_too_long_is_ended():
    factories = copies(functools.partial(Troubled, on={"step": "sleep:100"}, at=2, only=1), 3)
    pilot = Pilot(factories, workers=3, timeout=1.0)
    pilot.reset()
    pilot.step()
    start = time.monotonic()
    with pytest.raises(StepTimeoutError, match="1"):
        pilot.step()
    assert time.monotonic() - start < 5.0
    pilot.vec.close()
    assert not workers_alive()


def test_error_in_the_main_program_ends_it_with_its_own_traceback_alone():
    code, _, err = script("""
        vec = make_vec(copies(Ledger, 2), workers=2)
        vec.reset(seed=0)
        raise ValueError("my own mistake")
    """)
    assert code == 1 and "my own mistake" in err and err.count("Traceback") == 1, err


ENDLESS = """
    pilot = Pilot(copies(Ledger, 3, horizon=10**9), workers=3)
    pilot.reset()
    import psutil
    print("pids", *[c.pid for c in psutil.Process().children(recursive=True)])
    print("ready")
    while True:
        pilot.step()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("group", [False, True])
def test_signal_to_the_main_program_ends_all_quietly(number, group):
    before = set(os.listdir("/dev/shm"))
    code, out, err = script(ENDLESS, send=number, group=group, timeout=20)
    assert code == (1 if number == signal.SIGINT else -number) or code == -signal.SIGINT
    (line,) = [line for line in out.splitlines() if line.startswith("pids")]
    assert ended([int(pid) for pid in line.split()[1:]])
    assert err.count("Traceback") == (number == signal.SIGINT), err
    assert "resource_tracker" not in err
    assert set(os.listdir("/dev/shm")) <= before


# ---- the end -----------------------------------------------------------------------------


def closings(path):
    return sorted(path.read_text().split()) if path.exists() else []


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_close_reaches_every_environment_once_however_often_it_is_called(workers, tmp_path):
    log = tmp_path / "closed"
    pilot = Pilot(copies(Ledger, 3, log=str(log)), workers=workers)
    pilot.reset()
    pilot.step()
    pilot.vec.close()
    assert closings(log) == ["0", "1", "2"]
    assert not workers_alive()
    pilot.vec.close()
    for name, given in (("reset", ()), ("render", ()), ("step", ([{}] * 3,)), ("call", ("x",))):
        with pytest.raises(ClosedError):
            getattr(pilot.vec, name)(*given)
    del pilot
    gc.collect()
    assert closings(log) == ["0", "1", "2"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("moment", ["before a reset", "in an exception", "forgotten"])
def test_close_at_any_moment(workers, moment, tmp_path):
    log = tmp_path / "closed"
    pilot = Pilot(copies(Ledger, 2, log=str(log)), workers=workers)
    if moment == "in an exception":
        pilot.reset()
        with pytest.raises(ZeroDivisionError), pilot:
            raise ZeroDivisionError
    elif moment == "before a reset":
        pilot.vec.close()
    else:
        pilot.reset()
        del pilot
        gc.collect()
    assert closings(log) == ["0", "1"]
    assert not workers_alive()


def test_closing_while_others_step_waits_no_longer_than_asked():
    pilot = Pilot(copies(Slow, 2, seconds=0.0), workers=2)
    pilot.reset()
    pilot.vec.set_attr("seconds", 30.0)
    thread = threading.Thread(target=lambda: _ignoring(pilot.step), daemon=True)
    thread.start()
    time.sleep(0.2)
    start = time.monotonic()
    pilot.vec.close(timeout=0.5)
    assert time.monotonic() - start < 5.0
    assert not workers_alive()
    thread.join(10)


def _ignoring(act):
    with contextlib.suppress(Exception):
        act()


def test_making_and_closing_leaves_nothing_behind():
    me = psutil.Process()

    def cycle():
        with Pilot(copies(Ledger, 2), workers=2) as pilot:
            pilot.reset()
            pilot.step()

    cycle()
    gc.collect()
    before = me.num_fds(), threading.active_count(), set(os.listdir("/dev/shm"))
    for _ in range(5):
        cycle()
    gc.collect()
    assert (me.num_fds(), threading.active_count(), set(os.listdir("/dev/shm"))) == before
    assert not workers_alive()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_memory_does_not_grow_with_episodes(workers):
    def resident():
        return sum(p.memory_info().rss for p in [psutil.Process(), *workers_alive()]) / 2**20

    with Pilot(copies(Ledger, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        # The worlds keep lists of what they were told, about 200 bytes a step.
        pilot.step(times=1500)
        before = resident()
        pilot.step(times=3000)
        assert resident() - before < 6


# ---- the machine -------------------------------------------------------------------------


class _Threads(Ledger):
    def look(self, agent):
        np.ones((2, 2)) @ np.ones((2, 2))
        count = max([p["num_threads"] for p in threadpoolctl.threadpool_info()] or [1])
        cores = os.sched_getaffinity(0)
        return np.array([count, len(cores), min(cores), self.t], np.float32)


def settings():
    info = sorted((p["filepath"], p["num_threads"]) for p in threadpoolctl.threadpool_info())
    return info, {name: value for name, value in os.environ.items() if "THREADS" in name}


@pytest.mark.parametrize("method", METHODS)
def test_threads_of_numeric_libraries_are_shared_out_and_the_callers_are_its_own(method):
    before = settings()
    with Pilot(copies(_Threads, 2), workers=2, start_method=method) as pilot:
        observations, _ = pilot.reset()
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        assert all(row["a"][0] <= share for row in observations)
        assert settings() == before
    assert settings() == before


@pytest.mark.parametrize("method", METHODS)
def test_workers_keep_to_the_callers_cores(method):
    usable = os.sched_getaffinity(0)
    one = max(usable)
    try:
        os.sched_setaffinity(0, {one})
        with Pilot(copies(_Threads, 2), workers=2, start_method=method) as pilot:
            observations, _ = pilot.reset()
            assert [row["a"][1:3].tolist() for row in observations] == [[1, one]] * 2
    finally:
        os.sched_setaffinity(0, usable)


def test_gymnasium_sees_no_processes_where_there_are_none():
    with Pilot(copies(Ledger, 3)) as pilot:
        pilot.reset()
        assert not workers_alive()
        assert isinstance(pilot.vec.action_space("a"), gymnasium.Space)
