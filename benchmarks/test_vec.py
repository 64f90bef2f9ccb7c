"""`make_vec` beside loops and other libraries, each in a process of its own, in turn.

Environment variables name interpreters that have the others: SEER_RLLIB_PYTHON,
SEER_PUFFERLIB_PYTHON; SEER_VEC_PYTHON one with mpe2 and pettingzoo[butterfly]. Where RLlib or
PufferLib is missing its published figure takes its place, and the row says so; what can't run is
skipped. SEER_BENCH_STEPS: how many steps the long run has, 10^6 by default.
"""

import os

import pytest

from seer import vec_figures as figures

ROUNDS = 9


def named(cases):
    return [pytest.param(case, id="-".join(map(_name, case))) for case in cases]


def _name(part):
    return str(getattr(part, "label", part)).replace(", ", "-").replace(" ", "-")


@pytest.mark.parametrize("case", named(figures.NOOP))
def test_vec_cheap_steps(measure, case):
    measure(figures.noop_row, case, ROUNDS)


@pytest.mark.parametrize("case", named(figures.ALIKE))
def test_vec_many_agents(measure, case):
    measure(figures.alike_row, case, 5)


@pytest.mark.parametrize("case", named(figures.TWO_CORES))
def test_vec_against_two_loops(measure, case):
    measure(figures.two_cores_row, case, ROUNDS)


def test_vec_heavy_tail(measure):
    measure(figures.tail_row, ROUNDS)


def test_vec_heavy_tail_with_a_policy_between(measure):
    measure(figures.async_row, ROUNDS)


@pytest.mark.parametrize("case", named(figures.AUTO))
def test_vec_auto_against_serial_and_process(measure, case):
    measure(figures.auto_row, case, ROUNDS)


def test_vec_more_workers_than_cores(measure):
    measure(figures.crowd_row, ROUNDS)


def test_vec_memory(measure):
    measure(figures.memory_row)


@pytest.mark.parametrize("method", ["forkserver", "fork", "spawn"])
def test_vec_start(measure, method):
    measure(figures.start_row, method)


def test_vec_long_run(measure):
    measure(figures.growth_row, int(float(os.environ.get("SEER_BENCH_STEPS", "1e6"))))
