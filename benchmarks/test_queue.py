"""PHOLD on one thread against a binary heap in C with the same generator, order and checksums.

1024 entities with 1 or 16 events each and 65 536 with one; lookahead 0.1, 25 % of the events to
another entity, exponential delays. Heap and engine run in turn in one process.
"""

import pytest

from seer import figures

ROUNDS = 15


@pytest.mark.parametrize("case", figures.QUEUE, ids=lambda case: case[0])
def test_queue_c_handlers(case, measure):
    measure(figures.queue_row, case, ROUNDS)


@pytest.mark.parametrize("case", figures.QUEUE, ids=lambda case: case[0])
def test_queue_numba_handlers(case, measure):
    measure(figures.numba_row, case, ROUNDS)
