"""Random legal actions: only for who is live, and only what masks allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import Array
from .frames import Frame
from .leaves import OBJECT, filler, is_mask

__all__ = ["by_agent", "by_group", "sample", "sample_worlds"]


def sample(vec: Any) -> list[dict[str, Any]]:
    """One dict for each row, agent -> action, of who is live.

    Agents that were not announced have the names of their slots, but in lists their own. Masks
    are read from the observation's ``action_mask`` or from the info's.

    Raises:
        StateError: before the first reset.
    """
    frame, spec = vec._frame, vec._spec
    live = vec.live  # raises before the first reset
    masks = [
        next((k for k, leaf in enumerate(g.observation.leaves) if is_mask(leaf)), None)
        for g in spec.groups
    ]
    out: list[dict[str, Any]] = []
    envs = vec.env_ids.tolist()
    for row in range(frame.rows):
        actions = {}
        for slot in np.flatnonzero(live[row]).tolist():
            g, k = spec.where[slot]
            agent = vec._named(row, slot)
            mask = _mask(frame, envs[row], row, g, k, masks[g], agent)
            space = vec._space_of(envs[row], slot)
            actions[agent if vec.layout == "list" else spec.agents[slot]] = draw(space, mask)
        for agent in vec._strangers(envs[row])[1]:
            told = frame.side.infos.get(envs[row], {}).get(agent)
            mask = told.get("action_mask") if isinstance(told, dict) else None
            actions[agent] = draw(vec._space_of(envs[row], 0), mask)
        out.append(actions)
    return out


def sample_worlds(vec: Any, drawn: dict[Any, Any]) -> dict[str, Array]:
    """Group -> (rows, A_g, …) of native worlds, all at once: they have no masks.

    Args:
        vec: the vector.
        drawn: spaces of many agents, kept from call to call.

    Raises:
        StateError: before the first reset.
    """
    from gymnasium.vector.utils import batch_space

    live, out = vec.live, {}
    for group in vec._spec.groups:
        shape = len(live), len(group)
        one, key = vec._spaces.groups[group.name][1], (group.name, shape)
        if key not in drawn:
            drawn[key] = batch_space(one, shape[0] * shape[1])
        many = drawn[key]
        many.seed(int(one.np_random.integers(2**32)))  # so that seed_spaces decides
        leaf = group.action.leaves[0]
        values = many.sample().reshape(*shape, *leaf.shape)
        values[~live[:, group.slots]] = filler(leaf)
        out[group.name] = values
    return out


def draw(space: Any, mask: Any) -> Any:
    """One action of a space, honouring a mask where the space knows how to."""
    if mask is None:
        return space.sample()
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return space.sample(np.asarray(mask, np.int8).reshape(-1))
    try:
        return space.sample(mask)
    except (AssertionError, TypeError, ValueError):
        return space.sample()


def _mask(frame: Frame, env: int, row: int, g: int, k: int, leaf: int | None, agent: str) -> Any:
    if leaf is not None:
        return frame.obs[g][leaf][row, k]
    info = frame.side.infos.get(env, {}).get(agent)
    return info.get("action_mask") if isinstance(info, dict) else None


def by_agent(vec: Any, sampled: list[dict[str, Any]]) -> dict[str, Any]:
    """Agent -> (rows, …), zero where it isn't live."""
    out: dict[str, Any] = {}
    for group in vec._spec.groups:
        for agent in group.agents:
            out[agent] = _batch(group.action, [row.get(agent) for row in sampled])
    return {agent: out[agent] for agent in vec.possible_agents}


def by_group(vec: Any, sampled: list[dict[str, Any]]) -> dict[str, Any]:
    """Group -> (rows, A_g, …), zero where nobody is live."""
    out = {}
    for group in vec._spec.groups:
        values = [row.get(agent) for row in sampled for agent in group.agents]
        flat = _batch(group.action, values)
        tree = group.action
        count = len(sampled)
        if not tree.batchable:
            out[group.name] = [values[r * len(group) : (r + 1) * len(group)] for r in range(count)]
            continue
        parts = [flat] if tree.single else list(tree.flatten(flat))
        parts = [part.reshape(count, len(group), *part.shape[1:]) for part in parts]
        out[group.name] = parts[0] if tree.single else tree.build(parts)
    return out


def _batch(tree: Any, values: list[Any]) -> Any:
    """Values (None: nobody) put together leaf by leaf."""
    if not tree.batchable:
        return tuple(values)
    parts = []
    flat = [None if value is None else tree.flatten(value) for value in values]
    for k, leaf in enumerate(tree.leaves):
        assert leaf.dtype != OBJECT
        part = np.empty((len(values), *leaf.shape), leaf.dtype)
        part[:] = filler(leaf)
        for row, one in enumerate(flat):
            if one is not None:
                part[row] = one[k]
        parts.append(part)
    return parts[0] if tree.single else tree.build(parts)
