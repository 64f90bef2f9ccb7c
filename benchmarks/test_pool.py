"""The hand-over of an empty step to hot threads, against libgomp's empty parallel region."""

import os

import pytest

from seer import figures


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_pool_empty_step(measure):
    measure(figures.handover_row, 101)
