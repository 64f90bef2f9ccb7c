"""How long a fresh process takes: to import seer, and to the first step of an environment."""

import statistics
import subprocess
import sys
import time

from seer import bench

ROUNDS = 7
FIRST_STEP = """
import seer
env = seer.make("uav_swarm", drones=16)
env.reset(seed=0)
env.step({a: env.action_space(a).sample() for a in env.agents})
env.close()
"""


def seconds(code):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def startup(case, code, target):
    """A row for a process that runs `code`; the baseline is one that imports numpy."""
    seconds(code)  # what has to be compiled is compiled now
    ours, numpy, python = bench.interleave(
        [lambda: seconds(code), lambda: seconds("import numpy"), lambda: seconds("pass")], ROUNDS
    )
    empty = statistics.median(python)
    return bench.row(
        "startup", case, "s", "import numpy", [t - empty for t in ours],
        [t - empty for t in numpy], below=target,
        note=f"without the {empty:.3f} s that an empty interpreter takes",
    )  # fmt: skip


def test_startup_import(measure):
    measure(startup, "import seer", "import seer", 0.3)


def test_startup_first_step_from_warm_cache(measure):
    measure(startup, "first step of uav_swarm, warm cache", FIRST_STEP, 1.0)
