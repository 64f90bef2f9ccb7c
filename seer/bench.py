"""Figures, each beside its baseline in the same run; ``seer bench engine``, ``seer bench vec``.

The two are measured in turn, round by round, so that what else the machine does hits both. A row
gives the medians, the median of the rounds' ratios and its quartiles; a ratio says how many times
better than the baseline, so more is better. The C programs are compiled where they are needed, from
the repository's ``benchmarks/native``; an installed wheel has no sources, and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .errors import ConfigError

__all__ = [
    "Row",
    "UnavailableError",
    "build",
    "interleave",
    "machine",
    "main",
    "others",
    "program_lines",
    "quietly",
    "row",
    "suites",
]

Measured = TypeVar("Measured")
TABLE = "table"
"""The bench of rows that are cells of one table; their case is "column: line"."""
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


def program_lines(
    program: Path, arguments: Iterable[str], **environment: str
) -> list[dict[str, Any]]:
    """Run a benchmark program; the JSON lines that it prints."""
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        name = program.name.split("-")[0]
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def others(function: Callable[[], Measured]) -> tuple[Measured, float]:
    """Measure, and tell how many CPUs all other processes kept busy meanwhile."""
    import psutil

    def busy() -> float:
        t = psutil.cpu_times()
        return float(sum(t) - t.idle - getattr(t, "iowait", 0.0) - getattr(t, "guest", 0.0)
                     - getattr(t, "guest_nice", 0.0))  # fmt: skip

    def own() -> float:
        return sum(os.times()[:4])  # children count once they have ended

    wall, machine_wide, mine = time.perf_counter(), busy(), own()
    result = function()
    elapsed = time.perf_counter() - wall
    return result, max(0.0, (busy() - machine_wide - (own() - mine)) / elapsed)


def quietly(
    function: Callable[[], Row | list[Row]], attempts: int = 1, enough: float = 0.1
) -> list[Row]:
    """Measure up to `attempts` times, until other processes leave the machine alone.

    Args:
        function: measures a row, or many at once.
        attempts: how often at most; SEER_BENCH_ATTEMPTS in the environment overrides it.
        enough: so many CPUs may be busy with other things.

    Returns:
        The rows measured with the least going on beside them; their notes tell how much.
    """
    best: list[Row] = []
    least = float("inf")
    for _ in range(max(1, int(os.environ.get("SEER_BENCH_ATTEMPTS", attempts)))):
        result, load = others(function)
        if load < least:
            best, least = result if isinstance(result, list) else [result], load
        if load <= enough:
            break
    busy = f"{least:.2f} CPUs busy with other things"
    return [replace(r, note=f"{r.note}; {busy}" if r.note else busy) for r in best]


def suites() -> dict[str, Callable[[bool], Iterable[Callable[[], Row | list[Row]]]]]:
    """What `seer bench` knows: name to a function of `quick` that lists measurements.

    A measurement gives one row, or a column of one large table.
    """
    from .figures import engine
    from .vec_figures import vec

    return {"engine": engine, "vec": vec}


def main(suite: str = "engine", *, json_path: str | Path | None = None, quick: bool = False) -> int:
    """Measure a suite, print it as a table, and write it as JSON.

    Args:
        suite: ``"engine"`` or ``"vec"``.
        json_path: a file for the list of rows.
        quick: fewer rounds.

    Returns:
        Exit status: 0 when everything was measured, 1 when something could not be.

    Raises:
        ConfigError: no such suite.
    """
    from rich.console import Console

    known = suites()
    if suite not in known:
        raise ConfigError(f"seer bench {suite}: expected one of {', '.join(known)}")
    console = Console()
    if not console.is_terminal:
        console.width = 170  # a file or a pipe has no edge to wrap at
    console.print(machine(), highlight=False)
    rows: list[Row] = []
    missing: list[str] = []
    with console.status("measuring") as status:
        for measure in known[suite](quick):
            try:
                rows += quietly(measure)
            except UnavailableError as error:
                if str(error) not in missing:
                    missing.append(str(error))
                continue
            status.update(f"measured: {rows[-1].bench}, {rows[-1].case}")
    _print_table(console, suite, [r for r in rows if r.bench == TABLE])
    _print(console, suite, [r for r in rows if r.bench != TABLE])
    for text in missing:
        console.print(f"not measured: {text}", style="yellow", highlight=False, markup=False)
    if json_path is not None:
        where = machine()
        records = [{**asdict(r), "machine": where} for r in rows]
        Path(json_path).write_text(json.dumps(records, indent=1) + "\n")
    return 1 if missing else 0


def _print(console: Any, suite: str, rows: Iterable[Row]) -> None:
    from rich.table import Table

    table = Table(title=f"seer bench {suite}", caption="medians; the ratio with its quartiles")
    for name in ("bench", "case", "unit"):
        table.add_column(name)
    for name in ("value", "baseline", "ratio", "target"):
        table.add_column(name, justify="right")
    for r in rows:
        table.add_row(
            r.bench,
            r.case,
            r.unit,
            f"{r.value:.3g}",
            f"{r.baseline_value:.3g} {r.baseline}",
            f"{r.ratio:.2f} ({r.low:.2f}-{r.high:.2f})",
            f"[{'green' if r.met else 'red'}]{r.target or '-'}[/]",
        )
    console.print(table)


def _print_table(console: Any, suite: str, rows: Iterable[Row]) -> None:
    """The cells beside each other, as rates."""
    from rich.table import Table

    cells: dict[tuple[str, str], Row] = {}
    for r in rows:
        column, _, line = r.case.partition(": ")
        cells[line, column] = r
    if not cells:
        return
    columns = list(dict.fromkeys(column for _, column in cells))
    table = Table(title=f"seer bench {suite}: thousand environment steps per second, medians")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for line in dict.fromkeys(line for line, _ in cells):
        values = []
        for column in columns:
            here = cells.get((line, column))
            copies = int(column.rpartition(" x ")[2])
            values.append(f"{copies / here.value * 1e3:.3g}" if here else "")
        table.add_row(line, *values)
    console.print(table)
