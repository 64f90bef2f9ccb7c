"""Vectorizers beside each other, each in a process of its own, timed in turn.

The programs stand in the repository's ``benchmarks/peers/vec``. A library that can't share our
interpreter has one named by an environment variable; one that isn't installed is left out. Whose
turn it isn't is stopped, since some keep their workers spinning.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bench import ROOT, UnavailableError

__all__ = ["LOOP", "OURS", "PACKING", "PEERS", "SLOWER_HALF", "TWO_LOOPS", "Contest", "Entry",
           "Run", "ours", "program"]  # fmt: skip

FOLDER = ROOT / "benchmarks" / "peers" / "vec"
STARTING = 120.0
"""How long a contestant may take to import and start, s."""
OVERTIME = 60.0
"""How much longer than asked for a measurement may take, s."""


def program(name: str) -> str:
    """The path of a program of the harness.

    Raises:
        UnavailableError: an installed wheel doesn't have it.
    """
    path = FOLDER / name
    if not path.exists():
        raise UnavailableError("vec: needs the repository's benchmarks/peers/vec, which isn't here")
    return str(path)


@dataclass(frozen=True)
class Entry:
    """A library and how it is used.

    Attributes:
        label: for tables.
        library: its name in contestant.py.
        options: for its adapter.
        package: what must be importable.
        variable: names an interpreter that has it; without it ours is tried.
        least: environments that it needs.
    """

    label: str
    library: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    package: str = ""
    variable: str = "SEER_VEC_PYTHON"
    least: int = 1

    def interpreter(self) -> str | None:
        """Who runs it; None: nobody can."""
        named = os.environ.get(self.variable)
        if named:
            return named
        if self.variable == "SEER_VEC_PYTHON":
            return sys.executable
        if self.package and importlib.util.find_spec(self.package) is None:
            return None
        return os.environ.get("SEER_VEC_PYTHON", sys.executable)


LOOP = Entry("plain loop", "loop")
PACKING = Entry("packing loop", "packing")
TWO_LOOPS = Entry("two loops on two cores", "two-loops", least=2)
SLOWER_HALF = Entry("slower of two halves", "slower-half", least=2)


def ours(label: str, **options: Any) -> Entry:
    """`make_vec` with these arguments."""
    return Entry(label, "seer", options)


OURS = (
    ours("seer, dict"),
    ours("seer, stacked", layout="stacked"),
    ours("seer, list", layout="list"),
    ours("seer, dict, isolate", isolate=True),
)


def _peer(label: str, library: str, package: str, least: int = 1, **options: Any) -> Entry:
    return Entry(label, library, options, package, f"SEER_{library.upper()}_PYTHON", least)


PEERS = {
    entry.label: entry
    for entry in (
        _peer("RLlib, in process", "rllib", "ray"),
        _peer("PufferLib serial", "pufferlib", "pufferlib"),
        _peer("PufferLib, 1 worker", "pufferlib", "pufferlib", processes=1),
        _peer("PufferLib, 2 workers", "pufferlib", "pufferlib", 2, processes=2),
        _peer("SuperSuit in process", "supersuit", "supersuit"),
        _peer("SuperSuit, 2 processes", "supersuit", "supersuit", 2, processes=2),
        _peer("Gymnasium async (joint)", "gymnasium", "gymnasium"),
        _peer("AgileRL", "agilerl", "agilerl"),
        _peer("SB3 subprocess (joint)", "sb3", "stable_baselines3"),
        _peer("Tianshou, shared memory (joint)", "tianshou", "tianshou"),
        _peer("TorchRL parallel", "torchrl", "torchrl"),
    )
}
"""Label -> library. "(joint)": it takes single-agent environments, so all agents are one."""


@dataclass(frozen=True)
class Run:
    """An entry at its work.

    Attributes:
        entry: who.
        workload: what; see workloads.py.
        copies: how many environments.
        workers: processes, for who lets us choose.
        policy_us: processor time between two steps, us.
    """

    entry: Entry
    workload: str
    copies: int = 8
    workers: int = 2
    policy_us: float = 0.0


class _Contestant:
    """A process that times one run when asked, and sleeps otherwise."""

    def __init__(self, run: Run) -> None:
        self.run, entry = run, run.entry
        interpreter = entry.interpreter()
        if interpreter is None:
            raise UnavailableError(
                f"{entry.label}: {entry.package} isn't installed, and {entry.variable} names no "
                "interpreter that has it"
            )
        command = [
            interpreter, program("contestant.py"), entry.library, run.workload, str(run.copies),
            "--workers", str(run.workers), "--policy-us", str(run.policy_us),
            "--options", json.dumps(dict(entry.options)),
        ]  # fmt: skip
        environment = dict(os.environ)
        if entry.library.startswith("seer"):
            given = environment.get("PYTHONPATH")
            environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([given] if given else [])])
        self._folder = tempfile.TemporaryDirectory()  # some libraries leave files where they run
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=self._folder.name, env=environment, bufsize=0,
        )  # fmt: skip
        try:
            self.greeting = self._read(STARTING)
        except BaseException:
            self.close()
            raise
        self._signal(signal.SIGSTOP)

    def measure(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Wake it, let it measure, and stop it."""
        assert self.process.stdin is not None
        self._signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # it has ended, and reading tells how
            self.process.stdin.write(json.dumps(dict(request)).encode() + b"\n")
        result = self._read(OVERTIME + float(request.get("seconds", 0.0)))
        self._signal(signal.SIGSTOP)
        return result

    def _read(self, seconds: float) -> dict[str, Any]:
        """A line of JSON."""
        assert self.process.stdout is not None
        label, until, line = self.run.entry.label, time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise UnavailableError(
                    f"{label}, {self.run.workload} x {self.run.copies}: no answer in {seconds:g} s"
                )
            part = self.process.stdout.read(65536)
            if not part:
                raise UnavailableError(
                    f"{label}, {self.run.workload} x {self.run.copies}: ended with "
                    f"{self.process.wait()}"
                )
            line += part
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnavailableError(
                f"{label}, {self.run.workload} x {self.run.copies}: {answer['error']}"
            )
        return answer

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """End it and its workers; it gets five seconds to do so by itself."""
        self._signal(signal.SIGCONT)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._folder.cleanup()


class Contest:
    """Runs beside each other; a context manager.

    Args:
        runs: who takes part.
        optional: leave out who can't, instead of raising.

    Attributes:
        missing: why who was left out.

    Raises:
        UnavailableError: one of them can't run here.
    """

    def __init__(self, runs: Sequence[Run], optional: bool = False) -> None:
        self.missing: list[str] = []
        self._optional = optional
        self._contestants: list[_Contestant] = []
        try:
            for run in runs:
                try:
                    self._contestants.append(_Contestant(run))
                except UnavailableError as error:
                    if not optional:
                        raise
                    self.missing.append(str(error))
        except BaseException:
            self.close()
            raise

    def greeting(self, run: Run) -> dict[str, Any]:
        """What it said of itself: "version", "python", "start_s"."""
        return next(c.greeting for c in self._contestants if c.run == run)

    def rounds(self, count: int, **request: Any) -> dict[Run, list[dict[str, Any]]]:
        """Let everybody measure in turn, `count` times, each time another one first.

        Args:
            count: how often.
            **request: arguments of the adapters' `measure`; a `seed` goes up by 1000 a round.

        Returns:
            What each measured; who fails is left out if it may be.
        """
        results: dict[Run, list[dict[str, Any]]] = {c.run: [] for c in self._contestants}
        for number in range(count):
            if "seed" in request:
                request["seed"] += 1000
            first = number % max(1, len(self._contestants))
            for contestant in self._contestants[first:] + self._contestants[:first]:
                try:
                    results[contestant.run].append(contestant.measure(request))
                except UnavailableError as error:
                    if not self._optional:
                        raise
                    self.missing.append(str(error))
                    self._contestants.remove(contestant)
                    contestant.close()
                    del results[contestant.run]
        return results

    def close(self) -> None:
        """End everybody."""
        for contestant in self._contestants:
            contestant.close()

    def __enter__(self) -> Contest:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
