"""Figures of `uav_swarm` that need no other simulator: dicts against arrays, a large swarm.

The actions are drawn beforehand. A swarm is reset, untimed, before every batch of steps, and a row
tells how many drones were still alive at the end of a batch.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from .bench import Row, interleave, row

__all__ = [
    "Arrays",
    "Dicts",
    "Vectors",
    "dict_overhead",
    "large_memory",
    "large_time",
    "vector_overhead",
]

STEPS = 30  # in a batch
SEED = 7


def _actions(shape: tuple[int, ...]) -> Any:
    """Eight sets of random commands."""
    return np.random.default_rng(SEED).uniform(-1, 1, (8, *shape)).astype(np.float32)


class Arrays:
    """Steps the model behind the environment through its arrays.

    Args:
        drones: in each world.
        worlds: how many worlds.
        config: a PoolConfig, or "auto".
    """

    def __init__(self, drones: int, worlds: int = 1, config: Any = "auto") -> None:
        from . import Engine
        from .envs.uav_swarm.model import Coverage

        self.engine = Engine(Coverage(drones=drones), worlds=worlds, pool=config)
        self.actions = _actions((worlds, drones, 3))
        self.alive = 1.0
        """Share of the drones that lived through the last batch."""

    def ms(self, steps: int = STEPS) -> float:
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

    def __init__(self, drones: int) -> None:
        from . import make

        self.env: Any = make("uav_swarm_v0", drones=drones)
        self.env.reset(seed=SEED)
        self.names = list(self.env.possible_agents)
        self.actions = [dict(zip(self.names, a, strict=True)) for a in _actions((drones, 3))]
        floats = self.env.observation_space(self.names[0]).shape[0]
        self.packed = np.zeros((drones, 3), np.float32)
        self.seen = np.zeros((drones, floats), np.float32)
        self.earned = np.zeros(drones)

    def ms(self) -> float:
        """Median of a batch of steps, ms."""
        self.env.reset(seed=SEED)
        times = []
        for k in range(STEPS):
            chosen = self.actions[k % 8]
            now = {name: chosen[name] for name in self.env.agents}
            start = time.perf_counter()
            self.env.step(now)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    def bare_ms(self) -> float:
        """The same for the bare loop."""
        times = []
        for k in range(STEPS):
            start = time.perf_counter()
            self._bare(self.actions[k % 8])
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    def _bare(self, chosen: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        for place, name in enumerate(self.names):
            self.packed[place] = chosen[name]
        observations: dict[str, Any] = {}
        rewards: dict[str, float] = {}
        terminated: dict[str, bool] = {}
        truncated: dict[str, bool] = {}
        infos: dict[str, dict[str, Any]] = {}
        for place, name in enumerate(self.names):
            observations[name] = self.seen[place]
            rewards[name] = float(self.earned[place])
            terminated[name] = False
            truncated[name] = False
            infos[name] = {}
        return observations, rewards, terminated, truncated, infos


class Vectors:
    """Steps worlds through `make_vec`.

    Args:
        layout: "stacked", "flat" or "dict".
        drones: in each world.
        worlds: how many worlds.
        config: a PoolConfig, or "auto".
        copy: whether results are the caller's to keep.
    """

    def __init__(
        self, layout: Any, drones: int, worlds: int, config: Any = "auto", copy: bool = True
    ) -> None:
        from . import make_vec

        self.vec: Any = make_vec(
            "uav_swarm_v0", worlds, layout=layout, pool=config, copy=copy, drones=drones
        )
        actions = _actions((worlds, drones, 3))
        if layout == "flat":
            self.actions: list[Any] = [a.reshape(-1, 3) for a in actions]
        elif layout == "stacked":
            self.actions = [{"drone": a} for a in actions]
        else:
            names = self.vec.possible_agents
            self.actions = [{name: a[:, k].copy() for k, name in enumerate(names)} for a in actions]

    def ms(self) -> float:
        """Median of a batch of steps, ms."""
        self.vec.reset(seed=SEED)
        times = []
        for k in range(STEPS):
            start = time.perf_counter()
            self.vec.step(self.actions[k % 8])
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3


def vector_overhead(layout: str, copy: bool, config: Any, repeat: int) -> Row:
    """1024 worlds of 16 drones through a layout against the bare engine.

    Within 1.15 x, and through dicts by agent, which are packed and unpacked, within 1.3 x.
    """
    drones, worlds = 16, 1024
    vectors = Vectors(layout, drones, worlds, config, copy)
    arrays = Arrays(drones, worlds, config)
    mine, bare = interleave([vectors.ms, arrays.ms], repeat)
    how = f"layout {layout}{'' if copy else ', copy=False'}"
    return row("env", f"uav_swarm, {worlds} worlds x {drones} drones, {how}", "ms/step",
               "Engine.step", mine, bare, at_least=1 / (1.3 if layout == "dict" else 1.15),
               note=f"{vectors.vec.pool}; {arrays.alive:.1%} alive")  # fmt: skip


def dict_overhead(repeat: int) -> Row:
    """The dict step against the array step plus the bare loop: within 1.3 x."""
    arrays, dicts = Arrays(1000), Dicts(1000)
    mine, array, bare = interleave([dicts.ms, arrays.ms, dicts.bare_ms], repeat)
    both = [a + b for a, b in zip(array, bare, strict=True)]
    return row("env", "uav_swarm, 1000 drones, dicts", "ms/step", "array step + bare packing loop",
               mine, both, at_least=1 / 1.3,
               note=f"array step {statistics.median(array):.3f} ms, bare loop "
                    f"{statistics.median(bare):.3f} ms")  # fmt: skip


def large_time(repeat: int) -> Row:
    """Time per drone at 100 000 against 1000, through arrays: within 3 x."""
    small, large = Arrays(1000), Arrays(100_000)
    per_large, per_small = interleave(
        [lambda: large.ms(6) / 100_000 * 1e6, lambda: small.ms() / 1000 * 1e6], repeat
    )
    return row("env", "uav_swarm, 100 000 drones, arrays", "ns/drone", "1000 drones", per_large,
               per_small, at_least=1 / 3,
               note=f"{large.engine.pool}; {large.alive:.1%} alive")  # fmt: skip


_MEMORY = """
import numpy, resource
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


def large_memory() -> Row:
    """What a drone of 100 000 takes: the growth of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY], check=True, capture_output=True, text=True
    )
    return row("env", "uav_swarm, 100 000 drones, memory", "B/drone", "1 kB",
               [float(done.stdout)], [1000.0], below=1000,
               note="growth of the resident set over 12 steps")  # fmt: skip
