"""What rows may hold, rows of arrays and dicts of arrays, and infos as a dict for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import BoolArray
from ..vector.leaves import OBJECT, filler

__all__ = ["after", "check", "copied", "final_info", "put", "row_info", "row_of", "spread_infos"]

_FINAL = ("final_state", "final_agent")  # of the step that ended an episode
_HANDLED = frozenset(["episode", "live", "final_info", "final_obs", *_FINAL])


# ---- spaces ------------------------------------------------------------------------------------


def check(core: Any) -> None:
    """Refuse vectors whose steps or spaces Stable-Baselines3 does not take.

    Raises:
        ConfigError: says what does not fit, and what to do.
    """
    from gymnasium import spaces

    kind = type(core).__name__
    if getattr(core, "layout", None) != "flat" or core.batch_size < core.num_worlds:
        raise ConfigError(
            f"Sb3VecEnv: expected a vector of seer.make_vec with layout='flat' (and all "
            f"environments stepped together), got {kind}"
        )
    if core._spec.mode != "same_step":
        raise ConfigError(
            "Sb3VecEnv: Stable-Baselines3 expects the next episode in the step that ends one; "
            f"make the vector with autoreset='same_step', not {core._spec.mode!r}"
        )
    space = core.single_observation_space
    inner = space.spaces if isinstance(space, spaces.Dict) else {}
    for key, part in inner.items():
        if isinstance(part, (spaces.Dict, spaces.Tuple)):
            raise ConfigError(
                f"Sb3VecEnv: the observation space has a {type(part).__name__} under {key!r}, "
                "and Stable-Baselines3 takes no nested spaces; flatten it, for example with "
                "gymnasium.wrappers.FlattenObservation in wrappers=[…]"
            )
    action = core.single_action_space
    if isinstance(action, spaces.Discrete) and int(action.start) != 0:
        raise ConfigError(
            f"Sb3VecEnv: the actions are {action}, and Stable-Baselines3 counts from 0; shift "
            "them with a wrapper"
        )


def after(core: Any) -> Any:
    """What a row shows while its agent waits; a fresh object."""
    tree = core._spec.groups[0].observation
    parts = [None if leaf.dtype == OBJECT else filler(leaf) for leaf in tree.leaves]
    return parts[0] if tree.single else tree.build(parts)


# ---- rows of arrays, or of dicts of arrays -------------------------------------------------


def copied(values: Any) -> Any:
    """The same in arrays of its own."""
    if isinstance(values, dict):
        return {key: copied(value) for key, value in values.items()}
    return np.array(values)


def row_of(values: Any, row: int) -> Any:
    """A copy of one row."""
    if isinstance(values, dict):
        return {key: row_of(value, row) for key, value in values.items()}
    return np.array(values[row])


def put(values: Any, row: int, one: Any) -> None:
    """Write one row."""
    if isinstance(values, dict):
        for key, value in values.items():
            put(value, row, one[key])
    else:
        values[row] = one


# ---- infos: from arrays with masks to a dict for each row -----------------------------------


def spread_infos(
    infos: list[dict[str, Any]], told: dict[str, Any], among: BoolArray | None = None
) -> None:
    """Give each row what was told of it."""
    for key, mask in _reported(told):
        chosen = mask if among is None else mask & among
        for row in np.flatnonzero(chosen).tolist():
            infos[row][key] = _value(told[key], row)


def row_info(told: dict[str, Any], row: int) -> dict[str, Any]:
    """What was told of one row."""
    return {key: _value(told[key], row) for key, mask in _reported(told) if mask[row]}


def final_info(told: dict[str, Any], row: int) -> dict[str, Any]:
    """What was told of one row in the step that ended its episode, which began a new one, too."""
    info = row_info(told.get("final_info", {}), row)
    info.update((k, told[k][row]) for k in _FINAL if k in told and told[f"_{k}"][row])
    return info


def _reported(told: dict[str, Any]) -> list[tuple[str, BoolArray]]:
    pairs = ((key, told.get(f"_{key}")) for key in told if key not in _HANDLED)
    return [(key, mask) for key, mask in pairs if isinstance(mask, np.ndarray)]


def _value(values: Any, row: int) -> Any:
    if not isinstance(values, dict):
        return values[row]
    masks = {key for key in values if isinstance(key, str) and f"_{key}" in values}
    if masks:
        return {key: _value(values[key], row) for key in masks if values[f"_{key}"][row]}
    return {key: _value(value, row) for key, value in values.items()}
