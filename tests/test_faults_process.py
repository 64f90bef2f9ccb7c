"""What the process around an engine may do: signals, forks, threads, ten thousand engines."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest
from random_models import Traffic

import seer
from seer import errors
from seer.snapshot import digest
from seer.types import PoolConfig

LANES = PoolConfig(2, "lanes", 4, share=True)


class Long(seer.EventModel):
    """A step of as many events as asked for, one window each."""

    events = seer.param(10**9)
    groups = {"node": 64}
    agents = "node"
    step = 10.0
    lookahead = 1e-9
    step_capacity = 2**60
    n = seer.column("i8")
    turn = seer.event()

    @seer.sweep(at=0.0)
    def start(ctx, s, i):
        ctx.send("turn", i, 1e-9)

    @seer.on("turn")
    def go(ctx, s, i, e):
        s.n[i] += 1
        if s.n[i] < s.p.events:
            ctx.send("turn", i, 1e-9)


def run_python(code, timeout=120, **more):
    """A Python process with these tests on its path; (return code, output)."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, timeout=timeout,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )  # fmt: skip
    return done.returncode, done.stdout


# ---- signals -------------------------------------------------------------------------------

INTERRUPTED = """
    import os, signal, threading, time
    import seer
    from seer.types import PoolConfig
    from test_faults_process import Long

    engine = seer.Engine(Long, {worlds}, {pool}, compiled={compiled})
    engine.reset(seed=1)
    sent = []

    def interrupt():
        time.sleep(0.5)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        engine.step()
    except KeyboardInterrupt:
        print("after", time.perf_counter() - sent[0])
    try:
        engine.step()
    except seer.errors.StateError as error:
        print("then", error)
    before = threading.active_count()
    engine.reset(seed=1)
    engine.close()
    print("closed", before)
"""


@pytest.mark.parametrize(
    ("pool", "worlds", "compiled"),
    [
        ("PoolConfig(1)", 1, True),
        ("PoolConfig(2, 'lanes', 16, share=True)", 1, True),
        ("PoolConfig(2, 'worlds', 1)", 4, True),
        ("'auto'", 1, False),
    ],
)
def test_ctrl_c_in_a_long_step_returns_soon_and_leaves_a_usable_engine(pool, worlds, compiled):
    code, out = run_python(INTERRUPTED.format(pool=pool, worlds=worlds, compiled=compiled))
    assert code == 0, out
    words = out.split()
    assert words[0] == "after", out
    assert float(words[1]) < 0.2, out
    assert "only reset and close are legal now" in out
    assert "closed 1" in out


def test_signal_handlers_run_within_a_step_which_then_goes_on():
    ticks = []
    old = signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.perf_counter()))
    try:
        with seer.Engine(Long(events=10**6), pool=PoolConfig(1)) as engine:
            engine.reset(seed=1)
            signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
            start = time.perf_counter()
            engine.step()
            took = time.perf_counter() - start
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert (engine.columns["n"] == 10**6).all()
            assert len(ticks) >= took / 0.03 * 0.3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_signal_handler_can_not_step_the_engine_it_interrupts():
    caught = []
    with seer.Engine(Long(events=10**6), pool=PoolConfig(1)) as engine:
        engine.reset(seed=1)

        def again(*_):
            for call in (engine.step, engine.close, engine.reset):
                try:
                    call()
                except errors.AlreadySteppingError as error:
                    caught.append(str(error))

        old = signal.signal(signal.SIGALRM, again)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.03)
            engine.step()
        finally:
            signal.signal(signal.SIGALRM, old)
        assert (engine.columns["n"] == 10**6).all()
    assert len(caught) == 3
    assert "another call into this engine is running" in caught[0]


# ---- threads -------------------------------------------------------------------------------


def in_threads(*works):
    """Run functions at once; raises what they raised."""
    failed = []

    def guard(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guard, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def trajectory(model, pool, seed, steps, worlds=2):
    with seer.Engine(model, worlds, pool) as engine:
        engine.reset(seed=seed)
        for _ in range(steps):
            engine.step()
        return digest(engine.state_dict())


@pytest.mark.parametrize("axis", ["lanes", "worlds"])
def test_two_engines_from_two_threads_get_what_each_gets_alone(axis):
    model = Traffic(nodes=60)
    pool = PoolConfig(2, axis, 8 if axis == "lanes" else 1, share=True)
    expected = [trajectory(model, PoolConfig(1), seed, 60) for seed in (1, 2, 3)]
    got = [None] * 3

    def work(k):
        got[k] = trajectory(model, pool, 1 + k, 60)

    in_threads(*(lambda k=k: work(k) for k in range(3)))
    assert got == expected


def test_two_engines_in_turn_share_the_pool():
    model = Traffic(nodes=60)
    with seer.Engine(model, 2, LANES) as a, seer.Engine(model, 2, PoolConfig(2)) as b:
        for engine in (a, b):
            engine.reset(seed=5)
        for _ in range(20):
            a.step()
            b.step()
        assert digest(a.state_dict()) == digest(b.state_dict())


def test_a_second_call_into_a_running_engine_is_an_error():
    with seer.Engine(Long(events=10**6), pool=PoolConfig(1)) as engine:
        engine.reset(seed=1)
        runner = threading.Thread(target=engine.step)
        runner.start()
        time.sleep(0.05)
        caught = []
        for call in (engine.step, engine.reset, engine.state_dict, engine.close):
            with pytest.raises(errors.AlreadySteppingError) as error:
                call()
            caught.append(str(error.value))
        assert "Engine(Long).step(): another call into this engine is running" in caught[0]
        runner.join(60)
        assert (engine.columns["n"] == 10**6).all()
        engine.reset(seed=1)


def test_an_engine_may_move_from_thread_to_thread():
    model = Traffic(nodes=40)
    expected = trajectory(model, PoolConfig(1), 4, 8)
    with seer.Engine(model, 2, LANES) as engine:
        engine.reset(seed=4)
        for _ in range(8):
            in_threads(engine.step)
        assert digest(engine.state_dict()) == expected


# ---- forks ---------------------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def in_child(work, timeout=30):
    """What a forked child's work returned, as text; the child is killed when it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    text = os.read(read, 10**6).decode()
    os.close(read)
    return text


@pytest.mark.parametrize("pool", [LANES, PoolConfig(2), PoolConfig(1)], ids=str)
def test_after_a_fork_with_the_pool_idle_both_go_on(pool):
    model = Traffic(nodes=60)
    expected = trajectory(model, PoolConfig(1), 4, 12)
    with seer.Engine(model, 2, pool) as engine:
        engine.reset(seed=4)
        for _ in range(6):
            engine.step()

        def rest():
            for _ in range(6):
                engine.step()
            return digest(engine.state_dict())

        assert in_child(rest) == expected
        assert rest() == expected
        assert in_child(lambda: trajectory(model, pool, 4, 12)) == expected


def test_after_a_fork_the_child_may_close_and_the_parent_goes_on():
    model = Traffic(nodes=60)
    with seer.Engine(model, 2, LANES) as engine:
        engine.reset(seed=4)
        engine.step()
        assert in_child(engine.close) == "None"
        engine.step()


@pytest.mark.parametrize("pool", [LANES, PoolConfig(2, "worlds", 1), PoolConfig(1)], ids=str)
def test_a_fork_while_stepping_leaves_the_child_an_engine_that_says_so(pool):
    other = seer.Engine(Traffic(nodes=60), 2, LANES)
    other.reset(seed=4)
    with seer.Engine(Long(events=3 * 10**5), 2, pool) as engine:
        engine.reset(seed=1)
        runner = threading.Thread(target=engine.step)
        runner.start()
        time.sleep(0.1)
        assert "by" in engine._held, "the step was over before the fork"

        def look():
            texts = []
            for call in (engine.step, engine.reset, engine.state_dict):
                try:
                    call()
                except errors.ForkedError as error:
                    texts.append(str(error))
            texts.append(repr(engine))
            engine.close()
            # Another engine, at rest when it happened, still works; so does a new one.
            other.step()
            texts.append(trajectory(Traffic(nodes=60), LANES, 4, 3))
            return "|".join(texts)

        texts = in_child(look).split("|")
        assert len(texts) == 5, texts
        for text in texts[:3]:
            assert "was forked while this engine was stepping" in text
        assert "unusable copy in a forked process" in texts[3]
        assert texts[4] == trajectory(Traffic(nodes=60), PoolConfig(1), 4, 3)
        runner.join(60)
        assert (engine.columns["n"] == 3 * 10**5).all()
    other.close()


# ---- many ----------------------------------------------------------------------------------


def test_ten_thousand_engines_leave_nothing_behind():
    process = psutil.Process()
    model = Traffic(nodes=16)
    pools = [PoolConfig(1), LANES, PoolConfig(2)]

    def some(count):
        for k in range(count):
            engine = seer.Engine(model, 2, pools[k % 3])
            if k % 20 == 0:
                engine.reset(seed=k)
                engine.step()
            if k % 2:
                engine.close()

    some(500)  # the pool's threads, the heap's free lists
    memory, threads, files = process.memory_info().rss, process.num_threads(), process.num_fds()
    some(10_000)
    assert process.num_threads() == threads
    assert process.num_fds() == files
    # One leaked engine in ten would be 1000 x 10 kB.
    assert process.memory_info().rss - memory < 5e6


def test_a_process_that_ends_in_the_middle_of_things_ends():
    code, out = run_python(
        """
        import threading, time
        import seer
        from test_faults_process import LANES, Long
        engine = seer.Engine(Long, 2, LANES)
        engine.reset(seed=1)
        threading.Thread(target=engine.step, daemon=True).start()
        idle = seer.Engine(Long(events=10), 2, LANES)
        idle.reset(seed=1)
        time.sleep(0.2)
        print("bye")
        """,
        timeout=60,
    )
    assert (code, out) == (0, "bye\n")


def test_the_pool_uses_no_time_when_nothing_steps():
    with seer.Engine(Traffic(nodes=60), 2, PoolConfig(4, "lanes", 4, 50.0, share=True)) as engine:
        engine.reset(seed=1)
        for _ in range(5):
            engine.step()
        time.sleep(0.1)
        before = sum(psutil.Process().cpu_times()[:2])
        time.sleep(0.3)
        assert sum(psutil.Process().cpu_times()[:2]) - before < 0.1


def test_an_engine_that_is_used_when_the_process_has_ended_says_so():
    code, output = run_python("""
        import seer
        from test_faults_process import Long

        class Late:
            def __del__(self):
                for call in (engine.step, engine.counters, engine.time):
                    try:
                        call()
                    except seer.errors.ClosedError as error:
                        print(error, flush=True)
                engine.close()

        engine = seer.Engine(Long(events=3))
        engine.reset(seed=1)
        late = Late()
        engine.step()
    """)
    assert code == 0
    lines = output.splitlines()
    assert len(lines) == 3 and all("has been closed" in line for line in lines), output
