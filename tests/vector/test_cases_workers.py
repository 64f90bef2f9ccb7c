"""What went wrong for others with worker processes: what travels, how they start, the machine."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
import psutil
import pytest
import threadpoolctl

from . import case_worlds
from .case_scripts import TESTS, ended, script, workers_alive
from .case_worlds import Locked, NeedsLock, Random
from .pilot import Pilot, copies
from .worlds import Ledger

METHODS = ("forkserver", "spawn", "fork")


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
