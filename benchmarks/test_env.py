"""`uav_swarm` against GrADyS-SIM and VMAS, and through dicts against arrays.

A step is 0.1 s; each drone broadcasts once a second to all within 60 m, at 10 drones per hectare.
The actions are drawn beforehand. A swarm is reset, untimed, before every batch of steps, and a
row tells how many drones were still alive at the end of a batch.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks.peers.peer import GRADYSIM, VMAS, Peer

import seer
from seer import PoolConfig, bench

ROUNDS = 9
STEPS = 30  # in a batch
SEED = 7
GRADYSIM_MS = 94.5  # 1000 drones, median of several runs on a 2-core Zen 4 at 2.6 GHz
VMAS_MS = 143.0  # flocking, 1024 worlds of 16, the same machine
CPUS = len(os.sched_getaffinity(0))


def actions(shape, seed=SEED):
    """Eight sets of random commands."""
    return np.random.default_rng(seed).uniform(-1, 1, (8, *shape)).astype(np.float32)


def model(drones, **params):
    """The model behind the environment, without its PettingZoo face."""
    from seer.envs.uav_swarm.model import Coverage

    return Coverage(drones=drones, **params)


def pool(threads, axis):
    return PoolConfig(threads=min(threads, CPUS), axis=axis)


class Arrays:
    """Steps an engine through its arrays; counts who lived."""

    def __init__(self, drones, worlds=1, config=None):
        self.engine = seer.Engine(model(drones), worlds=worlds, pool=config or "auto")
        self.actions = actions((worlds, drones, 3))
        self.alive = 1.0

    def ms(self, steps=STEPS):
        """Median of a batch of steps, ms."""
        engine, chosen = self.engine, self.actions
        engine.reset(seed=SEED)
        times = []
        for k in range(steps):
            start = time.perf_counter()
            engine.step(chosen[k % 8])
            times.append(time.perf_counter() - start)
        self.alive = float(np.mean(engine.alive))
        return statistics.median(times) * 1e3


class Dicts:
    """Steps the PettingZoo face; and a loop that only packs and builds what that face must."""

    def __init__(self, drones):
        self.env = seer.make("uav_swarm_v0", drones=drones)
        self.env.reset(seed=SEED)
        self.names = list(self.env.possible_agents)
        self.actions = [dict(zip(self.names, a, strict=True)) for a in actions((drones, 3))]
        floats = self.env.observation_space(self.names[0]).shape[0]
        self.packed = np.zeros((drones, 3), np.float32)
        self.seen = np.zeros((drones, floats), np.float32)
        self.earned = np.zeros(drones)

    def ms(self):
        self.env.reset(seed=SEED)
        times = []
        for k in range(STEPS):
            chosen = self.actions[k % 8]
            now = {name: chosen[name] for name in self.env.agents}
            start = time.perf_counter()
            self.env.step(now)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    def bare_ms(self):
        times = []
        for k in range(STEPS):
            start = time.perf_counter()
            self._bare(self.actions[k % 8])
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    def _bare(self, chosen):
        for row, name in enumerate(self.names):
            self.packed[row] = chosen[name]
        observations, rewards, terminated, truncated, infos = {}, {}, {}, {}, {}
        for row, name in enumerate(self.names):
            observations[name] = self.seen[row]
            rewards[name] = float(self.earned[row])
            terminated[name] = False
            truncated[name] = False
            infos[name] = {}
        return observations, rewards, terminated, truncated, infos


@contextlib.contextmanager
def peer(which, published, *arguments):
    """(function that measures the peer's step in ms, its name, a note)."""
    if not Peer.available(which):
        note = f"{which[1]} names no interpreter: the figure is another machine's"
        yield (lambda: published), f"{which[0].split('_')[0]} as published", note
        return
    with Peer(which, *arguments) as running:
        info = running.info
        yield (lambda: running.step_ms(3)), f"{info['peer']} {info['version']}", ""


def swarm_arrays():
    with peer(GRADYSIM, GRADYSIM_MS, "--drones", "1000", "--update", "0.1") as (theirs, name, note):
        ours = Arrays(1000, config=pool(2, "lanes"))
        mine, other = bench.interleave([ours.ms, theirs], ROUNDS)
    return bench.row(
        "env", "uav_swarm, 1000 drones, arrays", "ms/step", name, mine, other, at_least=200,
        note=f"{ours.engine.pool}; seed {SEED}; {ours.alive:.1%} alive; {note}",
    )  # fmt: skip


def swarm_dicts():
    with peer(GRADYSIM, GRADYSIM_MS, "--drones", "1000", "--update", "0.1") as (theirs, name, note):
        mine, other = bench.interleave([Dicts(1000).ms, theirs], ROUNDS)
    return bench.row(
        "env", "uav_swarm, 1000 drones, dicts", "ms/step", name, mine, other, at_least=100,
        note=f"seed {SEED}; {note}",
    )  # fmt: skip


def dict_overhead():
    """The dict step against the array step plus the bare loop: 1 / 1.3 at least."""
    arrays, dicts = Arrays(1000), Dicts(1000)
    mine, array, bare = bench.interleave([dicts.ms, arrays.ms, dicts.bare_ms], ROUNDS)
    return bench.row(
        "env", "uav_swarm, 1000 drones, dicts", "ms/step", "array step + bare packing loop", mine,
        [a + b for a, b in zip(array, bare, strict=True)], at_least=1 / 1.3,
        note=f"array step {statistics.median(array):.3f} ms, bare loop "
        f"{statistics.median(bare):.3f} ms",
    )  # fmt: skip


def many_worlds():
    drones, worlds = 16, 1024
    arguments = ("--worlds", str(worlds), "--agents", str(drones), "--threads", "2")
    with peer(VMAS, VMAS_MS, *arguments) as (theirs, name, note):
        ours = Arrays(drones, worlds, pool(2, "worlds"))
        mine, other = bench.interleave([ours.ms, theirs], ROUNDS)
    rate = worlds * drones / statistics.median(mine) / 1e3
    return bench.row(
        "env", f"uav_swarm, {worlds} worlds x {drones} drones, arrays", "ms/step", name, mine,
        other, at_least=40,
        note=f"{rate:.2f} M agent-steps/s (stretch 10); {ours.alive:.1%} alive; {note}",
    )  # fmt: skip


def large_swarm_time():
    small, large = Arrays(1000), Arrays(100_000)
    per_large, per_small = bench.interleave(
        [lambda: large.ms(6) / 100_000 * 1e6, lambda: small.ms() / 1000 * 1e6], 5
    )
    return bench.row(
        "env", "uav_swarm, 100 000 drones, arrays", "ns/drone", "1000 drones", per_large,
        per_small, at_least=1 / 3, note=f"{large.engine.pool}; {large.alive:.1%} alive",
    )  # fmt: skip


MEMORY = """
import numpy, resource, sys
import seer
from seer.envs.uav_swarm.model import Coverage
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
def fly(drones, steps):
    engine = seer.Engine(Coverage(drones=drones))
    engine.reset(seed=7)
    for _ in range(steps):
        engine.step(numpy.zeros((1, drones, 3), "f4"))
    return engine
fly(100, 12).close()
before = resident()
engine = fly(100_000, 12)
print((resident() - before) / 100_000)
"""


def large_swarm_memory():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True
    )
    grown = float(done.stdout)
    return bench.row(
        "env", "uav_swarm, 100 000 drones, memory", "B/drone", "1 kB", [grown], [1000.0],
        below=1000, note="growth of the resident set in a fresh process, 12 steps",
    )  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [swarm_arrays, swarm_dicts, dict_overhead, many_worlds, large_swarm_time, large_swarm_memory],
    ids=lambda case: case.__name__,
)
def test_env(case, measure):
    measure(case)
