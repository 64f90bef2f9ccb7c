"""The peer's side of the protocol: one JSON line to greet, then one for each line of input.

Needs nothing but the standard library, so that it runs in anyone's environment. A line of input
is a number of steps; the answer is a list of their durations in seconds. The end of input ends the
program. With ``--steps`` it times that many steps instead and prints a summary.
"""

import json
import platform
import statistics
import sys
import time
from importlib.metadata import version


def add_arguments(parser):
    parser.add_argument("--steps", type=int, default=0, help="time so many steps and say how long")
    parser.add_argument("--warm", type=int, default=3, help="steps that come first, untimed")


def _times(step, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


def serve(step, info, package, args, counts=None):
    """Time ``step()`` on request.

    Args:
        step: does one step.
        info: dict for the greeting.
        package: its version is added to the greeting.
        args: parsed arguments, with those of ``add_arguments``.
        counts: dict printed with the summary.
    """
    info = dict(info, version=version(package), python=platform.python_version())
    _times(step, args.warm)
    if args.steps:
        times = sorted(_times(step, args.steps))
        info["median_ms"] = statistics.median(times) * 1e3
        info["low_ms"], info["high_ms"] = (
            times[len(times) // 4] * 1e3,
            times[-1 - len(times) // 4] * 1e3,
        )
        print(json.dumps(dict(info, steps=len(times), **(counts or {}))))
        return
    print(json.dumps(info), flush=True)
    for line in sys.stdin:
        print(json.dumps(_times(step, int(line))), flush=True)
