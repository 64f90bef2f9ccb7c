"""Named scenarios. Their parameters never change; a change gets a new name."""

from __future__ import annotations

from typing import Any

_EASY = {"drones": 16, "wind": 0.0, "gust": 0.0, "loss": 0.0, "fading": 0.0}
_MEDIUM = {"drones": 16, "wind": 2.0, "gust": 1.0, "loss": 0.1, "fading": 0.0}
_HARD = {"drones": 16, "wind": 4.0, "gust": 2.0, "loss": 0.2, "fading": 1.0, "battery": 9e3}

SCENARIOS: dict[str, dict[str, Any]] = {
    "coverage-16-easy": {
        "task": "coverage", "horizon": 400, **_EASY, "points_per_drone": 1.0, "sensing": 25.0,
    },
    "coverage-16-medium": {
        "task": "coverage", "horizon": 400, **_MEDIUM, "points_per_drone": 1.0, "sensing": 15.0,
    },
    "coverage-16-hard": {
        "task": "coverage", "horizon": 500, **_HARD, "points_per_drone": 1.5, "sensing": 12.0,
    },
    "rendezvous-16-easy": {
        "task": "rendezvous", "horizon": 400, **_EASY, "team_size": 16, "meeting": 10.0,
    },
    "rendezvous-16-medium": {
        "task": "rendezvous", "horizon": 400, **_MEDIUM, "team_size": 16, "meeting": 10.0,
    },
    "rendezvous-16-hard": {
        "task": "rendezvous", "horizon": 500, **_HARD, "team_size": 16, "meeting": 10.0,
        "radio_range": 50.0,
    },
}  # fmt: skip
