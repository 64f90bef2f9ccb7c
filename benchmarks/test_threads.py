"""PHOLD on several threads against fewer: light and heavy events, uneven load, too little work.

All numbers of threads run in turn in one process; checksums are equal or the program fails.
"""

import os

import pytest

from seer import figures

ROUNDS = 15


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("case", figures.THREADS, ids=lambda case: case[0])
def test_threads_speedup(case, measure):
    measure(figures.threads_row, case, ROUNDS)
