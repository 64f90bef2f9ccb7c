"""Values of many agents into one array: quickly when they are as declared, else with a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ResultError
from ..types import Array
from .leaves import Leaf
from .quick import pack_in_c

__all__ = ["flattened", "quick_format", "stack"]


def quick_format(leaf: Leaf) -> str:
    """What the buffer protocol calls its elements, for `quick.pack_in_c`; "" where it can't be."""
    if pack_in_c is None or not leaf.shape or leaf.dtype.kind not in "biuf":
        return ""
    element: Any = np.empty(1, leaf.dtype)
    return str(memoryview(element).format)


def stack(
    leaf: Leaf, values: Sequence[Any], target: Array, rows: Any, envs: Sequence[int],
    agents: Sequence[str],
) -> None:  # fmt: skip
    """Write one leaf of many observations.

    Args:
        leaf: what each must be.
        values: row after row, each with all its agents.
        target: (rows, agents, ...), or (agents, ...) where `rows` are the agents' places.
        rows: which rows of `target`.
        envs: the environment of each row, or of each value.
        agents: the agent of each value within a row, or of each value.

    Raises:
        ResultError: a value is of another shape, or its dtype doesn't cast within its kind.
    """
    try:
        if leaf.shape:
            size = leaf.shape[0]
            if set(map(len, values)) == {size}:
                if type(rows) is slice:  # of a whole frame's array
                    shape = (len(values) * size, *leaf.shape[1:])
                    np.concatenate(values, out=target[rows].reshape(shape), casting="same_kind")
                else:
                    joined = np.concatenate(values, dtype=leaf.dtype, casting="same_kind")
                    target[rows] = joined.reshape(len(rows), *target.shape[1:])
                return
        else:
            row = np.array(values)
            if row.shape == (len(values),) and np.can_cast(row.dtype, leaf.dtype, "same_kind"):
                target[rows] = row.reshape(target[rows].shape)
                return
    except (TypeError, ValueError):
        pass
    _stack_slowly(leaf, values, target, rows, envs, agents)


def _stack_slowly(
    leaf: Leaf, values: Sequence[Any], target: Array, rows: Any, envs: Sequence[int],
    agents: Sequence[str],
) -> None:  # fmt: skip
    """The same one by one: lists, numbers as one-element arrays; and to name what is wrong."""
    out = np.empty((len(values), *leaf.shape), leaf.dtype)
    for at, value in enumerate(values):
        env, agent = envs[at * len(envs) // len(values)], agents[at % len(agents)]
        where = f"environment {env}, agent {agent!r}: the observation{_at(leaf)}"
        try:
            array = np.asarray(value)
        except Exception as error:
            raise ResultError(f"{where} is no array: {error}", env=env, agent=agent) from None
        if array.shape != leaf.shape and array.size == 1 and leaf.shape in ((), (1,)):
            array = array.reshape(leaf.shape)
        if array.shape != leaf.shape:
            raise ResultError(
                f"{where} has shape {array.shape}, its space declares {leaf.shape}",
                env=env, agent=agent,
            )  # fmt: skip
        if not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
            raise ResultError(
                f"{where} has dtype {array.dtype}, its space declares dtype {leaf.dtype}, and the "
                "one can't be cast to the other within its kind",
                env=env, agent=agent,
            )  # fmt: skip
        out[at] = array
    target[rows] = out.reshape(target[rows].shape)


def _at(leaf: Leaf) -> str:
    return "".join(f"[{key!r}]" for key in leaf.path)


def flattened(
    group: Any, values: Sequence[Any], envs: Sequence[int], agents: Sequence[str] | None = None
) -> list[Any]:
    """The leaves of observations; names whose observation is built otherwise."""
    flatten = group.observation.flatten
    try:
        return [flatten(value) for value in values]
    except (IndexError, KeyError, TypeError):
        pass
    agents = agents or group.agents
    for at, value in enumerate(values):
        try:
            flatten(value)
        except (IndexError, KeyError, TypeError) as error:
            env, agent = envs[at * len(envs) // len(values)], agents[at % len(agents)]
            raise ResultError(
                f"environment {env}, agent {agent!r}: an observation of "
                f"{group.observation.space} was expected, got {value!r} ({error!r})",
                env=env, agent=agent,
            ) from None  # fmt: skip
    raise AssertionError("unreachable")
