"""What the training examples share: scores by the protocol, a file of results, a drawing.

Imported by the examples beside it; nothing in here depends on a trainer.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from seer.evaluate import interquartile_mean, interval
from seer.hardware import hardware

HERE = Path(__file__).resolve().parent
PACKAGES = "gymnasium", "mpe2", "numpy", "pettingzoo", "stable_baselines3", "torch"
TARGET = 0.8  # normalized score: 0 is random, 1 the heuristic


@dataclass
class Run:
    """One training.

    Attributes:
        seed: of the training.
        agent_steps: (point,) rows stepped until an evaluation, dead ones included.
        returns: (point,) mean return of an evaluation.
        seconds: what training took, without evaluations.
        evaluation_seconds: what those took.
        mean_return: of the final evaluation, on the protocol's 100 episodes.
        dead_share: of the rows in training, those whose agent had ended.
        score: the final return, normalized.
    """

    seed: int
    agent_steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    mean_return: float = 0.0
    dead_share: float = 0.0
    score: float = 0.0


def summary(
    name: str, runs: Sequence[Run], low: float, high: float, settings: dict[str, Any]
) -> dict[str, Any]:
    """The results as JSON: each run, and their interquartile mean with its 95 % interval.

    Args:
        name: of the environment.
        runs: one a seed; their scores are filled in.
        low: mean return of the random policy on the same episodes.
        high: that of the heuristic.
        settings: whatever else belongs to the result.
    """
    for run in runs:
        run.score = (run.mean_return - low) / (high - low)
    scores = [run.score for run in runs]
    machine = hardware()
    return {
        "env": name,
        "random_return": low,
        "heuristic_return": high,
        "iqm_score": interquartile_mean(scores),
        "interval_95": interval(scores),
        "target": TARGET,
        "reached": f"{sum(score >= TARGET for score in scores)} of {len(runs)} seeds",
        "longest_run_seconds": max(run.seconds + run.evaluation_seconds for run in runs),
        "settings": settings,
        "machine": f"{machine.usable} CPUs, {machine.cpu}, {machine.system.split()[0]}",
        "versions": versions(
            "gymnasium", "mpe2", "numpy", "pettingzoo", "stable_baselines3", "torch"
        ),
        "runs": [_rounded(asdict(run)) for run in runs],
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of those packages that are installed, and Python's."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write(results: dict[str, Any], path: Path) -> None:
    """Write results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")


def draw(results: dict[str, Any], path: Path, title: str) -> None:
    """Draw a learning curve for each seed, their interquartile mean, random and heuristic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    low, high = results["random_return"], results["heuristic_return"]
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    runs = results["runs"]
    for run in runs:
        axes.plot(
            np.array(run["agent_steps"]) / 1e6, run["returns"], lw=1, alpha=0.5,
            label=f"seed {run['seed']}: score {run['score']:.2f}",
        )  # fmt: skip
    points = min(len(run["returns"]) for run in runs)
    curves = np.array([run["returns"][:points] for run in runs])
    middle = [interquartile_mean(column) for column in curves.T]
    steps = np.array(runs[0]["agent_steps"][:points]) / 1e6
    axes.plot(steps, middle, color="black", lw=2, label="interquartile mean")
    if len(runs) > 1:
        edges = np.array([interval(column) for column in curves.T])
        axes.fill_between(steps, edges[:, 0], edges[:, 1], color="black", alpha=0.12, lw=0)
    for value, name, style in (
        (high, "heuristic (score 1)", "--"),
        (low + TARGET * (high - low), f"score {TARGET:g}", ":"),
        (low, "random (score 0)", "-."),
    ):
        axes.axhline(value, color="gray", ls=style, lw=1.2)
        axes.annotate(name, (0.01, value), xycoords=("axes fraction", "data"), va="bottom",
                      fontsize=8, color="dimgray")  # fmt: skip
    axes.margins(y=0.08)
    axes.set(xlabel="agent steps, millions", ylabel="return, mean over agents", title=title)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.06))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
