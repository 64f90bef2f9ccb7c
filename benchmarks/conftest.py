"""Collects the rows of all benchmarks: a table at the end, and JSON in SEER_BENCH_JSON."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from seer import bench

ROWS = []


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.benchmark(group=item.fspath.purebasename[5:]))
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def measure(benchmark):
    """Run a function that returns a ``seer.bench.Row`` once, keep the row, and judge it.

    The function measures by itself, in turn with its baseline, and takes medians; what
    pytest-benchmark times is the whole of it, and the row is in its ``extra_info``.
    """

    def run(function, *args):
        try:
            (row,) = benchmark.pedantic(
                lambda: bench.quietly(lambda: function(*args), attempts=3), rounds=1
            )
        except bench.UnavailableError as error:
            pytest.skip(str(error))
        ROWS.append(row)
        benchmark.extra_info.update(asdict(row))
        benchmark.extra_info["machine"] = bench.machine()
        assert row.met, (
            f"{row.case}: {row.value:.4g} {row.unit}, {row.baseline} {row.baseline_value:.4g}, "
            f"ratio {row.ratio:.3g} ({row.low:.3g} to {row.high:.3g}), target {row.target}"
        )
        return row

    return run


def pytest_terminal_summary(terminalreporter):
    if not ROWS:
        return
    where = bench.machine()
    terminalreporter.section("figures")
    terminalreporter.line(where)
    for r in ROWS:
        terminalreporter.line(
            f"{'ok  ' if r.met else 'MISS'} {r.bench:8} {r.case:58} {r.value:10.4g} {r.unit:9} "
            f"{r.baseline}: {r.baseline_value:.4g}; ratio {r.ratio:.3g} "
            f"({r.low:.3g} to {r.high:.3g}), target {r.target or '-'}; {r.note}"
        )
    path = os.environ.get("SEER_BENCH_JSON")
    if path:
        rows = [{**asdict(r), "machine": where} for r in ROWS]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")
