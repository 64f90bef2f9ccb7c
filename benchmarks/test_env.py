"""`uav_swarm` against GrADyS-SIM and VMAS, and through dicts against arrays.

A step is 0.1 s; each drone broadcasts once a second to all within 60 m, at 10 drones per hectare.
SEER_PEER_PYTHON and SEER_VMAS_PYTHON name the interpreters that have the other simulators.
"""

import contextlib
import os
import statistics

import pytest

from benchmarks.peers.peer import GRADYSIM, VMAS, Peer
from seer import PoolConfig, bench
from seer.swarm_figures import (
    Arrays,
    Dicts,
    dict_overhead,
    large_memory,
    large_time,
    vector_overhead,
)

ROUNDS = 9
GRADYSIM_MS = 94.5  # 1000 drones, median of several runs on a 2-core Zen 4 at 2.6 GHz
VMAS_MS = 143.0  # flocking, 1024 worlds of 16, the same machine
CPUS = len(os.sched_getaffinity(0))


@contextlib.contextmanager
def peer(which, published, *arguments):
    """(function that measures the peer's step in ms, its name, a note)."""
    if not Peer.available(which):
        note = f"{which[1]} names no interpreter: the figure is another machine's"
        yield (lambda: published), f"{which[0].split('_')[0]} as published", note
        return
    with Peer(which, *arguments) as running:
        info = running.info
        yield (lambda: running.step_ms(3)), f"{info['peer']} {info['version']}", "same run"


def swarm_arrays():
    ours = Arrays(1000, config=PoolConfig(threads=min(2, CPUS), axis="lanes"))
    with peer(GRADYSIM, GRADYSIM_MS, "--drones", "1000", "--update", "0.1") as (theirs, name, note):
        mine, other = bench.interleave([ours.ms, theirs], ROUNDS)
    return bench.row("env", "uav_swarm, 1000 drones, arrays", "ms/step", name, mine, other,
                     at_least=200,
                     note=f"{ours.engine.pool}; {ours.alive:.1%} alive; {note}")  # fmt: skip


def swarm_dicts():
    ours = Dicts(1000)
    with peer(GRADYSIM, GRADYSIM_MS, "--drones", "1000", "--update", "0.1") as (theirs, name, note):
        mine, other = bench.interleave([ours.ms, theirs], ROUNDS)
    return bench.row("env", "uav_swarm, 1000 drones, dicts", "ms/step", name, mine, other,
                     at_least=100, note=note)  # fmt: skip


def many_worlds():
    drones, worlds = 16, 1024
    ours = Arrays(drones, worlds, PoolConfig(threads=min(2, CPUS), axis="worlds"))
    arguments = ("--worlds", str(worlds), "--agents", str(drones), "--threads", "2")
    with peer(VMAS, VMAS_MS, *arguments) as (theirs, name, note):
        mine, other = bench.interleave([ours.ms, theirs], ROUNDS)
    rate = worlds * drones / statistics.median(mine) / 1e3
    return bench.row("env", f"uav_swarm, {worlds} worlds x {drones} drones, arrays", "ms/step",
                     name, mine, other, at_least=40,
                     note=f"{rate:.2f} M agent-steps/s (stretch 10); {ours.alive:.1%} alive; "
                          f"{note}")  # fmt: skip


def test_env_arrays_against_gradysim(measure):
    measure(swarm_arrays)


def test_env_dicts_against_gradysim(measure):
    measure(swarm_dicts)


def test_env_dicts_against_bare_loop(measure):
    measure(dict_overhead, ROUNDS)


def test_env_many_worlds_against_vmas(measure):
    measure(many_worlds)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("layout", ["stacked", "flat", "dict"])
def test_env_layouts_against_the_engine(measure, layout, copy):
    config = PoolConfig(threads=min(2, CPUS), axis="worlds", spin_us=100)
    measure(vector_overhead, layout, copy, config, ROUNDS)


def test_env_large_swarm_time(measure):
    measure(large_time, 5)


def test_env_large_swarm_memory(measure):
    measure(large_memory)
