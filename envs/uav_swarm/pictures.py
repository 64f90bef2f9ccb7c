"""Draws the pictures of the documentation: ``python -m seer.envs.uav_swarm.pictures [FOLDER]``.

``uav_swarm.gif`` (64 drones cover an area), ``rendezvous.gif`` (four teams come together) and
``coverage.png`` (how long each spot was watched), all flown by the heuristics.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from seer.album import Album
from seer.envs.uav_swarm import heuristic, parallel_env
from seer.envs.uav_swarm.render import coverage_map
from seer.envs.uav_swarm.swarm import side

CELL = 2.0  # m, of the map


def film(path: Path, steps: int, **settings: Any) -> None:
    """Every third step of a flight, as a GIF at three times the speed of life."""
    env = parallel_env(render_mode="rgb_array", horizon=steps, **settings)
    act = heuristic(env.model)
    album = Album(path, fps=10.0)
    env.reset(seed=4)
    for k in range(steps):
        if k % 3 == 0:
            album.add(env.render())
        env.engine.step(act(env.engine.observation))
    album.save()
    env.close()


def watched(engine: Any, model: Any, centres: Any) -> Any:
    """Which spots (row, column) of the ground are in some drone's range now."""
    position = engine.columns["pos"][0][engine.alive[0]]
    reach = np.maximum(model.p.sensing**2 - position[:, 2] ** 2, 0.0)
    x = (centres[None, :] - position[:, :1]) ** 2
    y = (centres[None, :] - position[:, 1:2]) ** 2
    return (y[:, :, None] + x[:, None, :] <= reach[:, None, None]).any(axis=0)


def chart(path: Path, steps: int, **settings: Any) -> None:
    """A map of how long each spot was watched."""
    env = parallel_env(horizon=steps, **settings)
    act = heuristic(env.model)
    env.reset(seed=4)
    centres = np.arange(CELL / 2, side(env.model.p), CELL)
    seconds = np.zeros((len(centres), len(centres)))
    for _ in range(steps):
        env.engine.step(act(env.engine.observation))
        seconds += env.model.p.dt * watched(env.engine, env.model, centres)
    album = Album(path)
    album.add(coverage_map(env.engine, env.model, seconds))
    album.save()
    env.close()


def main(folder: str = "docs") -> None:
    """Write all three."""
    film(Path(folder) / "uav_swarm.gif", 93, drones=64, sensing=12.0)
    film(Path(folder) / "rendezvous.gif", 120, task="rendezvous", drones=64)
    chart(Path(folder) / "coverage.png", 200, drones=64, sensing=15.0)


if __name__ == "__main__":
    main(*sys.argv[1:2])
