"""How long a fresh process takes: to import seer, and to the first step of an environment."""

import pytest

from seer import figures


@pytest.mark.parametrize("case", figures.STARTUP, ids=lambda case: case[0])
def test_startup(case, measure):
    measure(figures.startup_row, case, 7)
