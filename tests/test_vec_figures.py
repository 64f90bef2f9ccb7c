"""The harness behind `seer bench vec`: contestants in processes of their own, rows and table."""

import json
import os
import signal
import time

import psutil
import pytest
from rich.console import Console

from seer import bench, vec_figures
from seer.bench import TABLE, Row, UnavailableError
from seer.vec_contest import LOOP, OURS, PACKING, PEERS, TWO_LOOPS, Contest, Entry, Run, ours

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _only_what_is_here(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SEER_") and name.endswith("_PYTHON"):
            monkeypatch.delenv(name)


def test_contestants_are_timed_in_turn_and_sleep_otherwise():
    runs = [Run(entry, "noop-8", 4) for entry in (LOOP, PACKING, TWO_LOOPS, *OURS)]
    with Contest(runs) as contest:
        waiting = psutil.Process().children()
        until = time.monotonic() + 5
        while {child.status() for child in waiting} != {psutil.STATUS_STOPPED}:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert len(waiting) == len(runs)
        table = contest.rounds(2, seconds=0.05)
        assert contest.greeting(runs[3])["version"] != "?"
    assert list(table) == runs
    for times in table.values():
        assert len(times) == 2
        assert all(0 < one["mean_us"] < 1e5 and one["steps"] > 0 for one in times)
    assert table[runs[0]][0]["median_us"] < table[runs[1]][0]["median_us"]  # packing costs
    assert not [child for child in waiting if child.is_running()]


def test_the_same_draws_are_replayed_for_the_slower_half():
    row = vec_figures.tail_row(1)
    assert 0.3 < row.ratio < 2.0 and row.baseline == "slower of two halves"


def test_half_the_copies_come_back_at_a_time():
    entry = Entry("async", "seer-async", {"batch_size": 2})
    runs = [Run(entry, "busy-100", 4, policy_us=200.0)]
    with Contest(runs) as contest:
        (times,) = contest.rounds(1, seconds=0.3).values()
    assert times[0]["mean_us"] > 400  # of 4 steps, so two policies


def test_who_is_missing_or_fails_is_told_or_left_out(monkeypatch):
    nobody = Entry("nobody", "rllib", package="not_installed_at_all", variable="SEER_NO_PYTHON")
    with pytest.raises(UnavailableError, match=r"nobody.*SEER_NO_PYTHON"):
        Contest([Run(nobody, "noop-8")])
    wrong = ours("wrong", layout="round")
    with pytest.raises(UnavailableError, match=r"wrong, noop-8 x 8: ConfigError"):
        Contest([Run(LOOP, "noop-8"), Run(wrong, "noop-8")])
    runs = [Run(entry, "noop-8", 2) for entry in (nobody, LOOP, wrong)]
    with Contest(runs, optional=True) as contest:
        assert [why.split(",")[0].split(":")[0] for why in contest.missing] == ["nobody", "wrong"]
        assert list(contest.rounds(1, seconds=0.02)) == [runs[1]]
    assert not psutil.Process().children()


def test_contestant_that_dies_is_left_out_or_told():
    for optional in (True, False):
        runs = [Run(LOOP, "noop-8", 2), Run(PACKING, "noop-8", 2)]
        with Contest(runs, optional) as contest:
            victim = psutil.Process().children()[1]
            os.kill(victim.pid, signal.SIGKILL)
            time.sleep(0.1)
            if optional:
                assert list(contest.rounds(2, seconds=0.02)) == runs[:1]
                assert "packing loop" in contest.missing[0]
            else:
                with pytest.raises(UnavailableError, match="ended with -9"):
                    contest.rounds(1, seconds=0.02)


def test_interpreters_are_named_by_the_environment(monkeypatch):
    entry = PEERS["PufferLib serial"]
    monkeypatch.setenv("SEER_PUFFERLIB_PYTHON", "/somewhere/python")
    assert entry.interpreter() == "/somewhere/python"
    monkeypatch.setenv("SEER_VEC_PYTHON", "/elsewhere/python")
    assert LOOP.interpreter() == "/elsewhere/python"
    assert PEERS["Gymnasium async (joint)"].interpreter() == "/elsewhere/python"


def test_published_figure_takes_the_place_of_a_library_that_is_missing():
    row = vec_figures.noop_row(vec_figures.NOOP[1], 1)
    if row.baseline.endswith("as published"):
        assert row.baseline_value == 122.0 and "another machine" in row.note


def test_cells_of_the_table_stand_beside_the_plain_loop(monkeypatch, capsys):
    monkeypatch.setattr(vec_figures, "PEERS", {})
    rows = vec_figures.cell("noop-8", 2, 1, 0.05)
    assert [row.bench for row in rows] == [TABLE] * len(rows)
    assert rows[0].case == "noop-8 x 2: plain loop" and rows[0].ratio == 1.0
    bench._print_table(Console(width=120), "vec", rows)
    shown = capsys.readouterr().out
    assert "noop-8 x 2" in shown and "seer, stacked" in shown
    assert f"{2 / rows[0].value * 1e3:.3g}" in shown


def test_suite_prints_both_tables_and_writes_rows(monkeypatch, tmp_path, capsys):
    cell = Row(TABLE, "x x 8: a", "us/step", 2.0, "plain loop", 1.0, 0.5, 0.5, 0.5, "", True)
    one = Row("vec", "case", "us/step", 2.0, "base", 4.0, 2.0, 2.0, 2.0, "2 x", True)

    def gone():
        raise UnavailableError("somebody isn't here")

    monkeypatch.setattr(bench, "suites", lambda: {"vec": lambda quick: [
        lambda: [cell, cell], lambda: one, gone]})  # fmt: skip
    assert bench.main("vec", json_path=tmp_path / "rows.json") == 1
    out = capsys.readouterr().out
    assert "4e+03" in out and "case" in out and "somebody isn't here" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["bench"] for row in rows] == [TABLE, TABLE, "vec"]
    wanted = {"bench", "case", "unit", "value", "baseline", "baseline_value", "ratio"}
    assert all(wanted <= set(row) for row in rows)


@pytest.mark.slow
def test_long_runs_are_watched_for_growth():
    row = vec_figures.growth_row(2000)
    assert "0 descriptors, 0 segments" in row.note
