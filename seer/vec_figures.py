"""Figures of `make_vec`, each beside its baseline in the same run; ``seer bench vec``.

Times are of a vector step, in which every environment steps once and begins again where it has
ended. Where steps are alike the median is taken; where a baseline has no steps of its own (loops
that wait for nobody) or steps differ by nature, the mean.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .bench import TABLE, Row, UnavailableError, row
from .vec_contest import (
    LOOP,
    OURS,
    PACKING,
    PEERS,
    SLOWER_HALF,
    TWO_LOOPS,
    Contest,
    Entry,
    Run,
    ours,
    program,
)

__all__ = [
    "ALIKE",
    "AUTO",
    "CELLS",
    "NOOP",
    "TWO_CORES",
    "alike_row",
    "async_row",
    "auto_row",
    "cell",
    "crowd_row",
    "growth_row",
    "memory_row",
    "noop_row",
    "start_row",
    "tail_row",
    "two_cores_row",
    "vec",
]

PUBLISHED = {"RLlib, in process": 87.0, "PufferLib serial": 122.0}
"""us per vector step of the no-op, 8 agents, 8 copies, on a quiet 2-core machine."""

Table = dict[Run, list[dict[str, Any]]]


def _contest(runs: Sequence[Run], rounds: int, optional: bool = False, **request: Any) -> Table:
    with Contest(runs, optional) as contest:
        return contest.rounds(rounds, **request)


def _column(table: Table, run: Run, field: str) -> list[float]:
    return [float(one[field]) for one in table[run]]


def _pair(
    mine: Run, baseline: Run, rounds: int, field: str, **request: Any
) -> tuple[list[float], list[float], str]:
    """Both columns, and the baseline's name with its version."""
    with Contest([mine, baseline]) as contest:
        version = contest.greeting(baseline)["version"]
        table = contest.rounds(rounds, **request)
    name = f"{baseline.entry.label} {version}".strip()
    return _column(table, mine, field), _column(table, baseline, field), name


# ---- cheap steps: what the vector itself takes ---------------------------------------------

#: (ours, baseline, target)
NOOP = (
    (OURS[2], PEERS["RLlib, in process"], 2.0),
    (OURS[1], PEERS["PufferLib serial"], 2.0),
    (OURS[0], PEERS["PufferLib serial"], 2.0),
    (OURS[1], PACKING, 1.0),
    (OURS[0], PACKING, 1.0),
)


def noop_row(case: tuple[Entry, Entry, float], rounds: int) -> Row:
    """8 copies of 8 agents that do nothing: the vector's own cost."""
    entry, baseline, target = case
    what = f"no-op, 8 agents, 8 copies: {entry.label}"
    mine = Run(entry, "noop-8")
    try:
        values, theirs, name = _pair(mine, Run(baseline, "noop-8"), rounds, "median_us",
                                     seconds=0.3)  # fmt: skip
        note = "same run"
    except UnavailableError as error:
        if baseline.label not in PUBLISHED or not str(error).startswith(baseline.label):
            raise
        values = _column(_contest([mine], rounds, seconds=0.3), mine, "median_us")
        theirs, name = [PUBLISHED[baseline.label]] * rounds, f"{baseline.label} as published"
        note = f"the figure is another machine's: {error}"
    return row("vec", what, "us/step", name, values, theirs, at_least=target, note=note)


#: (ours, agents, target): per agent beside 8 agents
ALIKE = tuple((entry, agents, 0.9) for entry in OURS[:3] for agents in (64, 512))


def alike_row(case: tuple[Entry, int, float], rounds: int) -> Row:
    """Many agents: what each of them costs, beside 8."""
    entry, agents, target = case
    many, few = Run(entry, f"noop-{agents}"), Run(entry, "noop-8")
    values, base, _ = _pair(many, few, rounds, "median_us", seconds=0.3)
    each = [v / 8 / agents * 1e3 for v in values]
    return row("vec", f"no-op, {agents} agents, 8 copies: {entry.label}", "ns/agent", "8 agents",
               each, [v / 64 * 1e3 for v in base], at_least=target)  # fmt: skip


# ---- two cores ------------------------------------------------------------------------------

#: (workload, ours, target)
TWO_CORES = tuple(
    (workload, entry, target)
    for workload in ("spread-3", "pistonball", "kaz")
    for entry, target in ((OURS[0], 0.9), (OURS[3], None))
)


def two_cores_row(case: tuple[str, Entry, float | None], rounds: int) -> Row:
    """Real environments, beside loops that wait for nobody."""
    workload, entry, target = case
    seconds = 1.5 if workload == "pistonball" else 0.6
    values, theirs, name = _pair(Run(entry, workload), Run(TWO_LOOPS, workload), rounds,
                                 "mean_us", seconds=seconds)  # fmt: skip
    return row("vec", f"{workload}, 8 copies: {entry.label}", "us/step", name, values, theirs,
               at_least=target)  # fmt: skip


def tail_row(rounds: int) -> Row:
    """Steps of 0.1 to 2 ms: all wait for the slower half, and for nothing else."""
    values, theirs, name = _pair(Run(OURS[0], "tail"), Run(SLOWER_HALF, "tail"), rounds,
                                 "mean_us", steps=400, seed=0)  # fmt: skip
    return row("vec", "random 0.1-2 ms, 8 copies: seer, dict", "us/step", name, values, theirs,
               at_least=0.95, note="the same draws")  # fmt: skip


def async_row(rounds: int) -> Row:
    """Half of the copies a batch, and a policy of 1 ms for each batch."""
    entry = Entry("seer, send and recv", "seer-async", {"batch_size": 4})
    mine, base = (Run(e, "tail", policy_us=1000.0) for e in (entry, TWO_LOOPS))
    values, theirs, name = _pair(mine, base, rounds, "mean_us", seconds=1.0)
    return row("vec", "random 0.1-2 ms, 8 copies, 4 a batch, policy 1 ms", "us/step", name, values,
               theirs, at_least=0.9, note="the loops run the policy after 4 steps")  # fmt: skip


#: (workload, copies)
AUTO = (
    ("noop-8", 8),
    ("busy-5", 8),
    ("busy-10", 8),
    ("busy-20", 8),
    ("busy-50", 8),
    ("busy-200", 2),
    ("spread-3", 2),
    ("spread-3", 8),
    ("tail", 8),
)


def auto_row(case: tuple[str, int], rounds: int) -> Row:
    """What is chosen by itself, beside the better of both."""
    workload, copies = case
    chosen = Run(OURS[0], workload, copies)
    others = [Run(ours(name, backend=name), workload, copies) for name in ("serial", "process")]
    table = _contest([chosen, *others], rounds, seconds=0.4)
    means = {run: statistics.median(_column(table, run, "mean_us")) for run in others}
    best = min(others, key=means.__getitem__)
    return row("vec", f"{workload}, {copies} copies: auto", "us/step", best.entry.label,
               _column(table, chosen, "mean_us"), _column(table, best, "mean_us"), at_least=0.95,
               note="; ".join(f"{r.entry.label} {means[r]:.4g}" for r in others))  # fmt: skip


def crowd_row(rounds: int) -> Row:
    """More workers than cores."""
    many, few = (Run(ours(f"{k} workers", workers=k), "spread-3") for k in (8, 2))
    values, theirs, name = _pair(many, few, rounds, "mean_us", seconds=0.6)
    return row("vec", f"spread-3, 8 copies: 8 workers on {_cores()} cores", "us/step", name,
               values, theirs, at_least=0.8)  # fmt: skip


def _cores() -> int:
    return len(os.sched_getaffinity(0))


# ---- what it takes beside steps --------------------------------------------------------------


def _footprint(what: str, library: str, *more: str) -> dict[str, Any]:
    command = [sys.executable, program("footprint.py"), what, library, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"footprint.py {what} {library}: {done.stderr.strip()[-1000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def memory_row() -> Row:
    """8 no-op copies on 2 workers: PSS over the caller alone."""
    mine, theirs = (_footprint("memory", name) for name in ("seer", "gymnasium"))
    return row("vec", "no-op, 8 copies, 2 workers by forkserver: memory", "MB",
               "Gymnasium async, 8 processes", [mine["mb"]], [theirs["mb"]], below=45,
               note=f"PSS over the caller's own, {mine['processes']} processes")  # fmt: skip


def start_row(method: str) -> Row:
    """8 copies, from nothing to the first observations."""
    mine, theirs = (_footprint("start", name, "--method", method) for name in ("seer", "gymnasium"))
    return row("vec", f"no-op, 8 copies, 2 workers by {method}: start", "s", "Gymnasium async",
               mine["seconds"], theirs["seconds"], below=1.0 if method == "spawn" else 0.1,
               note=f"the first in a process {mine['first']:.3g} s, theirs "
                    f"{theirs['first']:.3g} s")  # fmt: skip


def growth_row(steps: int) -> Row:
    """Many steps: nothing grows."""
    grown = _footprint("growth", "seer", "--steps", str(steps))
    result = row("vec", f"no-op, 2 workers, {steps:.0e} steps: growth", "MB", "nothing",
                 [max(grown["mb"], 1e-3)], [1e-3], below=2.0,
                 note=f"{grown['descriptors']} descriptors, {grown['segments']} segments in "
                      f"{grown['seconds']:.0f} s")  # fmt: skip
    return replace(result, met=result.met and not (grown["descriptors"] or grown["segments"]))


# ---- the table --------------------------------------------------------------------------------

#: (workload, copies)
CELLS = (
    ("noop-8", 1),
    ("noop-8", 8),
    ("noop-8", 32),
    ("spread-3", 8),
    ("spread-3", 32),
    ("pistonball", 8),
    ("kaz", 8),
    ("tail", 8),
    ("tail", 32),
)


def cell(workload: str, copies: int, rounds: int, seconds: float) -> list[Row]:
    """Everybody who is installed on one workload, beside a plain loop.

    Raises:
        UnavailableError: the plain loop can't run; or, after the rows, somebody who is installed
            failed.
    """
    entries = [LOOP, PACKING, TWO_LOOPS, *OURS, *PEERS.values()]
    runs = [
        Run(e, workload, copies) for e in entries if copies >= e.least and e.interpreter()
    ]  # fmt: skip
    if workload == "pistonball":
        seconds *= 3
    with Contest(runs, optional=True) as contest:
        table = contest.rounds(rounds, seconds=seconds)
        missing = contest.missing
    if runs[0] not in table:
        raise UnavailableError(missing[0])
    base = _column(table, runs[0], "mean_us")
    rows = [
        row(TABLE, f"{workload} x {copies}: {run.entry.label}", "us/step", LOOP.label,
            _column(table, run, "mean_us"), base)
        for run in table
    ]  # fmt: skip
    why = "; ".join(missing)
    return [replace(rows[0], note=f"not measured: {why}" if why else ""), *rows[1:]]


def vec(quick: bool = False) -> Iterable[Callable[[], Row | list[Row]]]:
    """The vectorizer's figures, each as a function that measures it."""
    rounds = 3 if quick else 9
    cells = [c for c in CELLS if c[1] == 8] if quick else CELLS
    for workload, copies in cells:
        yield partial(cell, workload, copies, 2 if quick else 5, 0.2 if quick else 0.5)
    for noop in NOOP:
        yield partial(noop_row, noop, rounds)
    for alike in ALIKE:
        yield partial(alike_row, alike, rounds)
    for two in TWO_CORES:
        yield partial(two_cores_row, two, rounds)
    yield partial(tail_row, rounds)
    yield partial(async_row, rounds)
    for auto in AUTO:
        yield partial(auto_row, auto, rounds)
    yield partial(crowd_row, rounds)
    yield memory_row
    for method in ("forkserver", "fork", "spawn"):
        yield partial(start_row, method)
    yield partial(growth_row, 20_000 if quick else 1_000_000)
