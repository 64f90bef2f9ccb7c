"""Drones with a radio: cover an area, or meet at one point.

    >>> import seer
    >>> env = seer.make("uav_swarm_v0", drones=64, task="coverage")
    >>> observations, infos = env.reset(seed=0)

`env` and `raw_env` are the turn-based (AEC) forms, `parallel_env` the one to use.
"""

from __future__ import annotations

import difflib
from typing import Any

from seer.envs.uav_swarm.heuristics import heuristic
from seer.envs.uav_swarm.model import Coverage, Rendezvous
from seer.envs.uav_swarm.scenarios import SCENARIOS
from seer.envs.uav_swarm.swarm import Swarm
from seer.errors import ConfigError, UnknownIdError

__all__ = [
    "SCENARIOS",
    "TASKS",
    "Coverage",
    "Rendezvous",
    "Swarm",
    "env",
    "heuristic",
    "make_model",
    "parallel_env",
    "raw_env",
]

TASKS: dict[str, type[Swarm]] = {"coverage": Coverage, "rendezvous": Rendezvous}
CAUSES = {1: "collision", 2: "flat battery"}
_ENV_OPTIONS = ("horizon", "render_mode", "strict_actions", "pool", "compiled", "name")


def make_model(task: str | None = None, scenario: str | None = None, **params: Any) -> Swarm:
    """The model of a task.

    Args:
        task: ``"coverage"`` (by default) or ``"rendezvous"``.
        scenario: a name out of `SCENARIOS`; its parameters can't be overridden.
        **params: parameters of the model.

    Raises:
        ConfigError: a task or parameter that does not exist or is out of range.
        UnknownIdError: a scenario that does not exist.
    """
    settings = _settings(task, scenario, params)
    settings.pop("horizon", None)
    return _model(settings)


def parallel_env(task: str | None = None, scenario: str | None = None, **settings: Any) -> Any:
    """A swarm as a PettingZoo ``ParallelEnv``.

    Args:
        task: ``"coverage"`` (by default) or ``"rendezvous"``.
        scenario: a name out of `SCENARIOS`, such as ``"coverage-16-medium"``.
        **settings: parameters of the model (``drones=64``, ``discrete=True``,
            ``shared=False``, ...) and arguments of `seer.env.ParallelEnv` (``horizon=400``,
            ``render_mode``, ``strict_actions``, ``pool``, ``compiled``).

    Raises:
        ConfigError: a setting that does not exist or is out of range.
        UnknownIdError: a scenario that does not exist.
    """
    from seer.env import ParallelEnv
    from seer.envs.uav_swarm.render import SwarmRenderer

    settings = _settings(task, scenario, settings)
    options = {key: settings.pop(key) for key in _ENV_OPTIONS if key in settings}
    options.setdefault("name", "uav_swarm_v0")
    model = _model(settings)
    return ParallelEnv(
        model, renderer=SwarmRenderer, end_info=_end_info, state_columns=model.state_columns,
        **options,
    )  # fmt: skip


def raw_env(**settings: Any) -> Any:
    """The turn-based form, without checks. Takes what `parallel_env` takes."""
    from pettingzoo.utils.conversions import parallel_to_aec

    return parallel_to_aec(parallel_env(**settings))


def env(**settings: Any) -> Any:
    """The turn-based form; calls in the wrong order are errors. Takes what `parallel_env` takes."""
    from pettingzoo.utils.wrappers import OrderEnforcingWrapper

    return OrderEnforcingWrapper(raw_env(**settings))


def _settings(task: str | None, scenario: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Task and scenario made into one table of settings."""
    if scenario is None:
        return {"task": "coverage" if task is None else task, **given}
    if scenario not in SCENARIOS:
        close = difflib.get_close_matches(str(scenario), SCENARIOS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownIdError(
            f"uav_swarm: there is no scenario {scenario!r}{hint} (known: {', '.join(SCENARIOS)})",
            name=scenario, nearest=close[0] if close else None,
        )  # fmt: skip
    fixed = SCENARIOS[scenario]
    asked = dict(given) if task is None else {"task": task, **given}
    for key, value in asked.items():
        if key in fixed and value != fixed[key]:
            raise ConfigError(
                f"uav_swarm: scenario {scenario!r} has {key}={fixed[key]!r}, got {key}={value!r}; "
                "leave the scenario out to choose your own"
            )
        if key not in fixed and key not in (*_ENV_OPTIONS, "discrete", "shared"):
            raise ConfigError(
                f"uav_swarm: scenario {scenario!r} is frozen, so {key}={value!r} can't be chosen; "
                "leave the scenario out to choose your own"
            )
    return {**fixed, **given}


def _model(settings: dict[str, Any]) -> Swarm:
    task = settings.pop("task")
    if task not in TASKS:
        raise ConfigError(f"uav_swarm: task must be one of {', '.join(TASKS)}, got {task!r}")
    return TASKS[task](**settings)


def _end_info(made: Any, index: int) -> dict[str, Any]:
    """The last info of an agent: why it died."""
    return {"cause": CAUSES[int(made.engine.columns["cause"][0][index])]}
