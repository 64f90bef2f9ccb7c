"""Runs one library on one workload and times it when asked.

    python contestant.py LIBRARY WORKLOAD COPIES [--workers K] [--options JSON] [--seconds S]

With ``--seconds`` it times itself once and prints that. Otherwise it prints a line of JSON as a
greeting and one for each line of input, which has the arguments of `Adapter.measure`; the end of
input ends it. Whatever the libraries print goes to the standard error.
"""

import argparse
import ctypes
import importlib
import json
import os
import platform
import signal
import sys
import time
import warnings
from importlib import metadata

LIBRARIES = {
    "agilerl": "library_agilerl:AgileRL",
    "gymnasium": "library_gymnasium:Gymnasium",
    "loop": "loops:Loop",
    "packing": "loops:Packing",
    "pufferlib": "library_pufferlib:PufferLib",
    "rllib": "library_rllib:RLlib",
    "sb3": "library_sb3:StableBaselines3",
    "seer": "library_seer:Seer",
    "seer-async": "library_seer:SeerAsync",
    "slower-half": "loops:SlowerHalf",
    "supersuit": "library_supersuit:SuperSuit",
    "tianshou": "library_tianshou:Tianshou",
    "torchrl": "library_torchrl:TorchRL",
    "two-loops": "loops:TwoLoops",
}


def die_with_parent():
    """Not to stay behind, asleep, when whoever compares us is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def version(package):
    try:
        return metadata.version(package) if package else ""
    except metadata.PackageNotFoundError:
        return "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=sorted(LIBRARIES))
    parser.add_argument("workload")
    parser.add_argument("copies", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--policy-us", type=float, default=0.0)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--seconds", type=float, default=0.0)
    given = parser.parse_args()
    die_with_parent()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, name = LIBRARIES[given.library].split(":")
    contestant = None
    try:
        kind = getattr(importlib.import_module(module), name)
        contestant = kind(
            given.workload, given.copies, given.workers, given.policy_us, given.options
        )
        begin = time.perf_counter()
        contestant.start()
        greeting = {
            "start_s": time.perf_counter() - begin,
            "version": version(contestant.package),
            "python": platform.python_version(),
            "agents": len(contestant.names),
        }
        if given.seconds:
            print(json.dumps({**greeting, **contestant.measure(given.seconds)}), file=answers)
        else:
            print(json.dumps(greeting), file=answers)
            for line in sys.stdin:
                print(json.dumps(contestant.measure(**json.loads(line))), file=answers)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}), file=answers)
        raise
    finally:
        if contestant is not None:
            contestant.close()


if __name__ == "__main__":
    main()
