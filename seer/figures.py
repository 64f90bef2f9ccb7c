"""The engine's own figures: PHOLD against a heap in C, threads, the hand-over; start-up.

Each is a function that measures and returns a :class:`~seer.bench.Row`. The workloads stand in the
repository's ``benchmarks``: the C programs print JSON, the model for numba is Python.
"""

from __future__ import annotations

import ctypes
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from .bench import ROOT, Row, UnavailableError, build, interleave, program_lines, row
from .swarm_figures import dict_overhead

__all__ = [
    "QUEUE",
    "STARTUP",
    "THREADS",
    "engine",
    "handover_row",
    "numba_row",
    "phold",
    "queue_row",
    "startup_row",
    "threads_row",
]  # fmt: skip


def phold(*arguments: str) -> list[dict[str, Any]]:
    """Run the PHOLD program; one dict for each number of threads. See benchmarks/native/phold.c."""
    return program_lines(build("phold"), arguments)


# ---- the cases --------------------------------------------------------------------

#: (what, arguments, target with C handlers, target with numba handlers); baseline: a C heap.
QUEUE = (
    ("1024 entities, 1 event each", ("--entities", "1024"), 1.4, 1.25),
    ("1024 entities, 16 events each", ("--entities", "1024", "--each", "16"), 1.1, None),
    ("65536 entities, 1 event each", ("--entities", "65536"), 1.5, None),
)
_WORK = ("--each", "16", "--work-ns", "300", "--events", "3e5")
#: (what, arguments, target, numbers of threads compared); baseline: the first of the two.
THREADS = (
    ("light events, 93 a window", (), 1.1, "1,2"),
    ("light events, 1488 a window", ("--each", "16"), 1.9, "1,2"),
    ("light events, 65536 entities", ("--entities", "65536"), 2.2, "1,2"),
    ("0.3 us of work each", _WORK, 1.95, "1,2"),
    (
        "one block of 64 lanes with half of all work",
        (*_WORK, "--skew", "0.5", "--grain", "64"),
        1.6,
        "1,2",
    ),
    (
        "one block of 64 lanes with half of all events",
        (
            "--each",
            "16",
            "--work-ns",
            "300",
            "--events",
            "3e5",
            "--skew-events",
            "0.5",
            "--grain",
            "64",
        ),
        1.6,
        "1,2",
    ),
    ("too little for two: 6 events a window", ("--entities", "64", "--events", "4e5"), 0.95, "1,2"),
    ("too little for two: 1 event a window", ("--entities", "8", "--events", "2e5"), 0.95, "1,2"),
    ("4 threads over 2, light events", ("--each", "16"), 0.8, "2,4"),
    ("4 threads over 2, 0.3 us of work each", _WORK, 0.8, "2,4"),
)


def _from_line(
    line: dict[str, Any], bench: str, case: str, baseline: str, field: str, base: str, target: float
) -> Row:
    ratio = line[field]
    note = f"{line['events_per_window']:.0f} events a window"
    return Row(bench, case, "ns/event", line["ns"], baseline, line[base], ratio,
               line[f"{field}_low"], line[f"{field}_high"], f"{target:g} x", ratio >= target,
               note)  # fmt: skip


def queue_row(case: tuple[str, tuple[str, ...], float, float | None], repeat: int) -> Row:
    """PHOLD with C handlers on one thread, against the heap."""
    what, arguments, target, _ = case
    line = phold(*arguments, "--threads", "1", "--repeat", str(repeat))[0]
    return _from_line(line, "queue", f"{what}, C handlers", "binary heap in C", "heap_over_engine",
                      "heap_ns", target)  # fmt: skip


def threads_row(case: tuple[str, tuple[str, ...], float, str], repeat: int) -> Row:
    """PHOLD on two numbers of threads."""
    what, arguments, target, threads = case
    spin = ("--spin", "100")  # us, as pool="auto" chooses
    line = phold(*arguments, *spin, "--threads", threads, "--no-heap", "--repeat", str(repeat))[1]
    few, many = threads.split(",")
    what = what if few == "2" else f"{what}, {many} threads"
    baseline = f"{few} thread{'s' if few != '1' else ''}"
    return _from_line(line, "threads", what, baseline, "speedup", "first_ns", target)


def handover_row(repeat: int, threads: int = 2) -> Row:
    """An empty step handed to hot threads, against an empty parallel region of libgomp."""
    arguments = ("--threads", str(threads), "--repeat", str(repeat))
    x = program_lines(build("handover", "-fopenmp"), arguments)[0]
    return Row("pool", f"empty step to {threads} hot threads", "us", x["step_ns"] / 1e3,
               "libgomp, empty region", x["libgomp_ns"] / 1e3, x["libgomp_over_step"],
               x["libgomp_over_step_low"], x["libgomp_over_step_high"], "below 0.8 us",
               x["step_ns"] < 800, f"{x['one_thread_ns']:.0f} ns on one thread")  # fmt: skip


class Phold(ctypes.Structure):
    """phold_params of benchmarks/native/phold.h."""

    _fields_ = (
        ("entities", ctypes.c_uint32), ("each", ctypes.c_uint32), ("lookahead", ctypes.c_double),
        ("remote", ctypes.c_double), ("work", ctypes.c_uint32), ("hot", ctypes.c_uint32),
        ("skew", ctypes.c_double), ("skew_events", ctypes.c_double), ("step", ctypes.c_double),
        ("steps", ctypes.c_uint32),
    )  # fmt: skip


class PholdResult(ctypes.Structure):
    """phold_result of benchmarks/native/phold.h."""

    _fields_ = (
        ("ns", ctypes.c_double), ("cpu_ns", ctypes.c_double), ("events", ctypes.c_uint64),
        ("checksum", ctypes.c_uint64), ("counters", ctypes.c_uint64 * 6),
    )  # fmt: skip


def numba_row(
    case: tuple[str, tuple[str, ...], float, float | None], repeat: int, events: float = 2e6
) -> Row:
    """PHOLD with handlers written in Python, compiled by numba, against the heap."""
    what, arguments, _, target = case
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    entities, each = int(given.get("--entities", 1024)), int(given.get("--each", 1))
    units = events * 1.1 / entities / each
    steps = max(1, round(units / 100))
    params = Phold(entities, each, 0.1, 0.25, 0, 64, 0.0, 0.0, units / steps, steps)
    library = ctypes.CDLL(str(build("phold", library=True)))
    module = _phold_model()
    from . import Engine, PoolConfig

    model = module.Phold(entities=entities, each=each, step_ticks=int(params.step * 1e6))
    result = PholdResult()
    with Engine(model, pool=PoolConfig(threads=1, axis="lanes")) as eng:

        def heap() -> float:
            library.phold_heap(ctypes.byref(params), ctypes.byref(result))
            return float(result.ns / result.events)

        def ours() -> float:
            eng.reset(seed=0)
            start = time.perf_counter()
            for _ in range(steps):
                eng.step()
            seconds = time.perf_counter() - start
            if module.checksum(eng) != (result.events, result.checksum):
                raise RuntimeError("PHOLD: the engine's events differ from the heap's")
            return seconds * 1e9 / int(result.events)

        theirs, mine = interleave((heap, ours), repeat)
    return row("queue", f"{what}, numba handlers", "ns/event", "binary heap in C", mine, theirs,
               at_least=target)  # fmt: skip


def _phold_model() -> Any:
    path = ROOT / "benchmarks" / "phold_model.py"
    spec = importlib.util.spec_from_file_location("phold_model", path)
    if not path.exists() or spec is None or spec.loader is None:
        raise UnavailableError("phold: needs the repository's benchmarks/phold_model.py")
    if spec.name not in sys.modules:
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return sys.modules[spec.name]


_FIRST_STEP = """
import seer
env = seer.make("uav_swarm", drones=16)
env.reset(seed=0)
env.step({agent: env.action_space(agent).sample() for agent in env.agents})
env.close()
"""
#: (what, Python code, target in s)
STARTUP = (
    ("import seer", "import seer", 0.3),
    ("first step of uav_swarm, warm cache", _FIRST_STEP, 1.0),
)


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def startup_row(case: tuple[str, str, float], repeat: int) -> Row:
    """A fresh process, beside one that imports numpy; without what an empty one takes."""
    what, code, target = case
    _seconds(code)  # what has to be compiled is compiled now
    ours, numpy, empty = interleave(
        [lambda: _seconds(code), lambda: _seconds("import numpy"), lambda: _seconds("pass")], repeat
    )
    least = statistics.median(empty)
    return row("startup", what, "s", "import numpy", [t - least for t in ours],
               [t - least for t in numpy], below=target,
               note=f"without the {least:.3f} s of an empty interpreter")  # fmt: skip


def engine(quick: bool = False) -> Iterable[Callable[[], Row]]:
    """The engine's figures, each as a function that measures it."""
    repeat = 5 if quick else 15
    for case in QUEUE:
        yield lambda case=case: queue_row(case, repeat)  # type: ignore[misc]
        yield lambda case=case: numba_row(case, repeat)  # type: ignore[misc]
    for threads in THREADS:
        yield lambda case=threads: threads_row(case, repeat)  # type: ignore[misc]
    yield lambda: handover_row(21 if quick else 101)
    for startup in STARTUP:
        yield lambda case=startup: startup_row(case, 3 if quick else 7)  # type: ignore[misc]
    yield lambda: dict_overhead(repeat)
