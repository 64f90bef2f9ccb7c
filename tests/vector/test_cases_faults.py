"""What went wrong for others when a world, a worker or the caller came to its end."""

import contextlib
import functools
import gc
import os
import signal
import threading
import time
import traceback

import psutil
import pytest

from seer.errors import ClosedError, SeerError, StepTimeoutError, WorkerDiedError

from .case_scripts import ended, script, workers_alive
from .case_worlds import Slow
from .pilot import Pilot, copies
from .troubled import Troubled, TwoArgumentsError
from .worlds import Ledger


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SEER_CASE_FOLDER", str(tmp_path))


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
