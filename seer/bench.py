"""Figures of the engine, each beside its baseline in the same run; ``seer bench engine``.

The two are measured in turn, round by round, so that what else the machine does hits both. A row
gives the medians, the median of the rounds' ratios and its quartiles; a ratio says how many times
better than the baseline, so more is better. The C programs are compiled where they are needed, from
the repository's ``benchmarks/native``; an installed wheel has no sources, and says so.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ConfigError

__all__ = [
    "Row",
    "UnavailableError",
    "build",
    "engine",
    "interleave",
    "machine",
    "main",
    "phold",
    "row",
]

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ("-O3", "-ffp-contract=off", "-std=c11", "-D_GNU_SOURCE")  # those of the wheel


class UnavailableError(ConfigError):
    """A benchmark can't run here: a compiler, the sources or a peer is missing."""


@dataclass(frozen=True)
class Row:
    """One figure beside its baseline."""

    bench: str
    case: str
    unit: str
    value: float
    baseline: str
    baseline_value: float
    ratio: float
    """How many times better than the baseline; median over the rounds."""
    low: float
    high: float
    """Quartiles of the ratio."""
    target: str
    met: bool
    note: str = ""


def machine() -> str:
    """One line on the machine and the versions that a figure depends on."""
    from .hardware import hardware

    h = hardware()
    return (
        f"{h.cpu}, {h.usable} of {h.logical_cpus} CPUs usable, {h.system} {h.architecture}, "
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def interleave(functions: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Call the functions in turn, `rounds` times; each returns its own measurement.

    Returns:
        One list of `rounds` values for each function. An unmeasured round comes first.
    """
    for function in functions:
        function()
    table = [[function() for function in functions] for _ in range(rounds)]
    return [list(column) for column in zip(*table, strict=True)]


def row(
    bench: str, case: str, unit: str, baseline: str, ours: Iterable[float],
    theirs: Iterable[float], *, at_least: float | None = None, below: float | None = None,
    note: str = "",
) -> Row:  # fmt: skip
    """A row from paired measurements where less is better (times).

    Args:
        bench: name of the group.
        case: what is measured.
        unit: of the values.
        baseline: what it is compared with.
        ours: one value a round.
        theirs: the baseline's, of the same rounds.
        at_least: target for the ratio.
        below: target for the value itself, instead.
        note: what else a reader should know.
    """
    a, b = list(ours), list(theirs)
    ratios = [y / x for x, y in zip(a, b, strict=True)]
    low, high = (float(q) for q in np.quantile(ratios, (0.25, 0.75)))
    value, ratio = statistics.median(a), statistics.median(ratios)
    target, met = _judge(value, ratio, at_least, below, unit)
    return Row(bench, case, unit, value, baseline, statistics.median(b), ratio, low, high, target,
               met, note)  # fmt: skip


def _judge(
    value: float, ratio: float, at_least: float | None, below: float | None, unit: str
) -> tuple[str, bool]:
    if below is not None:
        return f"below {below:g} {unit}", value < below
    if at_least is not None:
        return f"{at_least:g} x", ratio >= at_least
    return "", True


# ---- C programs ----------------------------------------------------------------------------


def build(name: str, *flags: str, library: bool = False) -> Path:
    """Compile ``benchmarks/native/<name>.c`` with the core's sources, unless it is there already.

    Args:
        name: stem of the C file.
        flags: for the compiler, beside those that the wheel is built with.
        library: a shared library without a ``main`` instead of a program.

    Raises:
        UnavailableError: no sources (an installed wheel), no compiler, or it fails.
    """
    source = ROOT / "benchmarks" / "native" / f"{name}.c"
    if not source.exists():
        raise UnavailableError(
            f"{name}: needs the repository's benchmarks/native, which isn't here"
        )
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("gcc", "cc", "clang")), None)
    if compiler is None:
        raise UnavailableError(f"{name}: needs a C compiler: gcc, cc or clang, or one named by CC")
    core = sorted((ROOT / "native").glob("src/*.[ch]")) + sorted((ROOT / "native").glob("*/*.h"))
    if library:
        flags = (*flags, "-shared", "-fPIC", f"-D{name.upper()}_LIBRARY")
    command = [*compiler.split(), *FLAGS, *flags, f"-I{ROOT / 'native' / 'include'}"]
    digest = hashlib.sha256("\0".join(command).encode())
    for path in [*core, *sorted(source.parent.glob("*.[ch]"))]:
        digest.update(path.read_bytes())
    from platformdirs import user_cache_path

    target = user_cache_path("seer") / "bench" / f"{name}-{digest.hexdigest()[:20]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}")
        command += [str(source), *(str(p) for p in core if p.suffix == ".c"), "-o", str(part)]
        done = subprocess.run([*command, "-lm", "-lpthread"], capture_output=True, text=True)
        if done.returncode:
            raise UnavailableError(f"{name}: {compiler} failed:\n{done.stderr.strip()[-2000:]}")
        part.replace(target)
    return target


def _lines(program: Path, arguments: Iterable[str], **environment: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        name = program.name.split("-")[0]
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def phold(*arguments: str) -> list[dict[str, Any]]:
    """Run the PHOLD program; one dict for each number of threads. See benchmarks/native/phold.c."""
    return _lines(build("phold"), arguments)


# ---- the engine's figures --------------------------------------------------------------------

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
    ("one block of 64 lanes with half of all work", (*_WORK, "--skew", "0.5"), 1.6, "1,2"),
    (
        "one block of 64 lanes with half of all events",
        ("--each", "16", "--work-ns", "300", "--events", "3e5", "--skew-events", "0.5"),
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
    line = phold(*arguments, "--threads", threads, "--no-heap", "--repeat", str(repeat))[1]
    few, many = threads.split(",")
    what = what if few == "2" else f"{what}, {many} threads"
    baseline = f"{few} thread{'s' if few != '1' else ''}"
    return _from_line(line, "threads", what, baseline, "speedup", "first_ns", target)


def handover_row(repeat: int, threads: int = 2) -> Row:
    """An empty step handed to hot threads, against an empty parallel region of libgomp."""
    arguments = ("--threads", str(threads), "--repeat", str(repeat))
    # Active waiting on both sides: the threads are meant to be hot.
    x = _lines(build("handover", "-fopenmp"), arguments, OMP_WAIT_POLICY="active")[0]
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


def engine(quick: bool = False) -> Iterable[Callable[[], Row]]:
    """The engine's figures, each as a function that measures it."""
    repeat = 5 if quick else 15
    for case in QUEUE:
        yield lambda case=case: queue_row(case, repeat)  # type: ignore[misc]
        yield lambda case=case: numba_row(case, repeat)  # type: ignore[misc]
    for threads in THREADS:
        yield lambda case=threads: threads_row(case, repeat)  # type: ignore[misc]
    yield lambda: handover_row(21 if quick else 101)


SUITES: dict[str, Callable[[bool], Iterable[Callable[[], Row]]]] = {"engine": engine}


def main(suite: str = "engine", *, json_path: str | Path | None = None, quick: bool = False) -> int:
    """Measure a suite, print it as a table, and write it as JSON.

    Args:
        suite: ``"engine"``.
        json_path: a file for the list of rows.
        quick: fewer rounds.

    Returns:
        Exit status: 0 when everything was measured, 1 when something could not be.
    """
    from rich.console import Console
    from rich.table import Table

    if suite not in SUITES:
        raise ConfigError(f"seer bench {suite}: expected one of {', '.join(SUITES)}")
    console = Console()
    console.print(machine(), highlight=False)
    rows: list[Row] = []
    missing: list[str] = []
    with console.status("measuring") as status:
        for measure in SUITES[suite](quick):
            try:
                rows.append(measure())
            except UnavailableError as error:
                if str(error) not in missing:
                    missing.append(str(error))
                continue
            status.update(f"measured: {rows[-1].bench}, {rows[-1].case}")
    table = Table(title=f"seer bench {suite}", caption="medians; the ratio with its quartiles")
    for name in ("bench", "case", "unit"):
        table.add_column(name)
    for name in ("value", "baseline", "ratio", "target"):
        table.add_column(name, justify="right")
    for r in rows:
        table.add_row(r.bench, r.case, r.unit, f"{r.value:.3g}",
                      f"{r.baseline_value:.3g} {r.baseline}",
                      f"{r.ratio:.2f} ({r.low:.2f}-{r.high:.2f})",
                      f"[{'green' if r.met else 'red'}]{r.target}[/]")  # fmt: skip
    console.print(table)
    for text in missing:
        console.print(f"not measured: {text}", style="yellow", highlight=False, markup=False)
    if json_path is not None:
        where = machine()
        Path(json_path).write_text(json.dumps([{**asdict(r), "machine": where} for r in rows],
                                              indent=1))  # fmt: skip
    return 1 if missing else 0
