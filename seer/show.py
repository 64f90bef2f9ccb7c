"""What the command line prints: tables, progress, sentences. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from .flight import Flight, Report
from .registry import Entry

__all__ = ["environments", "facts", "flying", "parameters", "preparing", "report", "scores"]


def _errors() -> Console:
    # Made anew each time: the output may have been redirected meanwhile.
    return Console(stderr=True, highlight=False)


@contextmanager
def preparing(title: str, *, quiet: bool) -> Iterator[None]:
    """A line with a spinner, on stderr, while something takes a while."""
    if quiet:
        yield
        return
    with _errors().status(f"{title} …"):
        yield


@contextmanager
def flying(flight: Flight, steps: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Progress with rates, on stderr. The caller calls what it gets after every step."""
    if quiet:
        yield lambda: None
        return
    progress = Progress(
        TextColumn("flying"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} steps"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=_errors(),
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=steps, rate="")
        every = max(1, steps // 200)
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            if done % every == 0 or done == steps:
                rate = f"{_short(flight.events_per_second())} events/s"
                progress.update(task, completed=done, rate=rate)

        yield tick


def report(r: Report) -> None:
    """The table that ends `seer run`."""
    rows: list[tuple[str, str]] = [
        ("environment", r.env),
        ("size", f"{r.worlds:,} x {r.agents:,} agents, seed {r.seed}, policy {r.policy}"),
        ("pool", r.pool),
        ("built in", f"{r.build_seconds:.2f} s"),
        (
            "steps",
            f"{r.steps:,} in {r.step_seconds:.2f} s, {_short(r.steps_per_second)} world steps/s",
        ),
        ("agent steps", f"{_short(r.agent_steps_per_second)}/s"),
        ("events", f"{r.events:,}, {_short(r.events_per_second)}/s"),
        (
            "latency of a step",
            ", ".join(f"{name} {_time(value)}" for name, value in r.latency_us.items()),
        ),
    ]
    if r.agents:
        rows.append(("reward", f"{r.mean_reward:.4f} per agent and step"))
    if r.mean_return is not None:
        rows.append(("return", f"{r.mean_return:.3f} per agent, {r.episodes:,} episodes"))
    rows.extend((name, f"{value:.4f}") for name, value in r.totals.items())
    if r.agents:
        rows.append(("alive at the end", f"{r.alive:,} of {r.worlds * r.agents:,}"))
    if r.picture:
        rows.append(("picture", r.picture))
    _print(rows)


def environments(entries: Sequence[Entry]) -> None:
    """The table of `seer envs`."""
    _print([(entry.id, entry.summary) for entry in entries])


def parameters(found: Sequence[dict[str, Any]]) -> None:
    """The table of `seer envs ID`: name, value, range, meaning."""
    rows = [
        (p["name"], _range(p["value"], p["low"], p["high"]), p["doc"]) for p in found
    ] or [("(no parameters)", "", "")]  # fmt: skip
    width = max(len(text) for _, text, _ in rows) + 2
    _print([(name, f"{text:<{width}}{doc}".rstrip()) for name, text, doc in rows])


def _range(value: Any, low: Any, high: Any) -> str:
    if low is not None and high is not None:
        return f"{value} ({low} to {high})"
    limits = [f"{word} {end}" for word, end in (("from", low), ("to", high)) if end is not None]
    return f"{value} ({limits[0]})" if limits else str(value)


def facts(found: dict[str, Any]) -> None:
    """The sections of `seer info`."""
    for title, rows in found.items():
        print(title)
        _print([(f"  {name}", _plain(value)) for name, value in rows.items()])


def scores(found: dict[str, Any]) -> None:
    """The table of `seer evaluate`."""
    _print([(n.replace("_", " "), _plain(v)) for n, v in found.items() if n != "returns"])


def _print(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values in two columns; never broken, so that a path can be copied."""
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        print(f"{name:<{width}}{value}")


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return "; ".join(_plain(v) for v in value)
    return str(value)


def _short(value: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1e3:
        return f"{us / 1e3:.3g} ms"
    return f"{us:.3g} µs"
