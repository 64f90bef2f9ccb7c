"""What a vector of no-op environments takes beside its steps: memory, time to start, growth.

    python footprint.py memory|start|growth seer|gymnasium [--method M] [--steps N]

Prints one line of JSON. ``memory``: MB of PSS, of this process and all below it, beyond what this
process took alone. ``start``: seconds until the first reset is done, several times. ``growth``: MB,
descriptors and entries in /dev/shm that many steps add.
"""

import argparse
import json
import os
import time

import psutil
import workloads

COPIES, WORKERS, WORKLOAD = 8, 2, "noop-8"


def ours(method):
    import seer

    return seer.make_vec(
        workloads.factory(WORKLOAD), COPIES, workers=WORKERS, start_method=method,
        layout="stacked",
    )  # fmt: skip


def gymnasiums(method):
    import gymnasium.vector

    factories = [workloads.joint_factory(WORKLOAD)] * COPIES
    return gymnasium.vector.AsyncVectorEnv(factories, context=method)


def processes():
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def megabytes():
    """PSS of this process and all below it."""
    return sum(p.memory_full_info().pss for p in processes()) / 2**20


def steps(vec, count):
    if hasattr(vec, "sample_actions"):
        chosen = [vec.sample_actions() for _ in range(8)]
    else:
        chosen = [vec.action_space.sample() for _ in range(8)]
    for k in range(count):
        vec.step(chosen[k % 8])


def memory(make, method):
    before = megabytes()
    vec = make(method)
    vec.reset(seed=0)
    steps(vec, 100)
    taken = megabytes() - before
    count = len(processes()) - 1
    vec.close()
    return {"mb": taken, "processes": count}


def start(make, method):
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        vec = make(method)
        vec.reset(seed=0)
        times.append(time.perf_counter() - begin)
        vec.close()
    return {"first": times[0], "seconds": times[1:]}


def growth(make, method, count):
    vec = make(method)
    vec.reset(seed=0)
    steps(vec, max(1000, count // 20))
    before = taken()
    begin = time.perf_counter()
    for _ in range(10):
        steps(vec, count // 10)
        vec.reset(seed=0)
    seconds = time.perf_counter() - begin
    grown = {what: value - before[what] for what, value in taken().items()}
    vec.close()
    return {**grown, "steps": count, "seconds": seconds}


def taken():
    return {
        "mb": megabytes(),
        "descriptors": sum(p.num_fds() for p in processes()),
        "segments": len(os.listdir("/dev/shm")),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["memory", "start", "growth"])
    parser.add_argument("library", choices=["seer", "gymnasium"])
    parser.add_argument("--method", default="forkserver")
    parser.add_argument("--steps", type=int, default=1_000_000)
    given = parser.parse_args()
    make = ours if given.library == "seer" else gymnasiums
    if given.library == "seer":
        import seer.vector  # noqa: F401 - the caller alone has imported it
    else:
        import gymnasium.vector  # noqa: F401
    if given.what == "growth":
        answer = growth(make, given.method, given.steps)
    else:
        answer = {"memory": memory, "start": start}[given.what](make, given.method)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
