"""Actions on their way in: from the caller's form into the arrays that environments read.

The quick ways take whole batches; where one doesn't fit, the slow way takes value by value and
names what is wrong. Values for agents that aren't live are ignored and not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from ..errors import ActionError
from ..types import Array
from .base import Core
from .contract import Group
from .infos import copy_info
from .leaves import Leaf
from .legal import fitted, missing
from .quick import ready_actions
from .serial import Serial
from .spaces import unknown_agent

__all__ = ["take_agents", "take_groups", "take_list"]

_NOTHING = object()


def take_agents(vec: Core, actions: Mapping[str, Any], envs: Array | None) -> None:
    """Actions by agent, each (rows, …).

    Args:
        vec: whose backend they are for.
        actions: agent -> one action for each row; who lives in none of them may be left out.
        envs: the environment of each row; None: all in order.

    Raises:
        ActionError: a live agent has none, or one of a wrong shape or dtype.
        UnknownAgentError: an agent that doesn't exist.
    """
    spec, into = vec._spec, vec._backend.actions
    rows, count = _rows(vec, envs)
    _forget(vec, envs)
    known = 0
    for group, leaves in zip(spec.groups, into.leaves, strict=True):
        if group.action.single and _agents_at_once(group, leaves[0], actions, rows, count):
            known += len(group)
        else:
            known += _agents_one_by_one(vec, group, leaves, actions, envs, count)
    if known != len(actions):
        for name in actions:
            if name not in spec.slot:
                raise unknown_agent(name, spec.slot, f"{spec.name}: actions: ")


def _agents_at_once(
    group: Group, target: Any, actions: Mapping[str, Any], rows: Any, count: int
) -> bool:
    leaf = group.action.leaves[0]
    try:
        values = [actions[agent] for agent in group.agents]
        if target is None or set(map(len, values)) != {count}:
            return False
        joined = np.concatenate(values, dtype=leaf.dtype, casting="same_kind")
        if joined.shape[1:] != leaf.shape:
            return False
        target[rows] = joined.reshape(len(group), count, *leaf.shape).swapaxes(0, 1)
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _agents_one_by_one(
    vec: Core, group: Group, leaves: list[Any], actions: Mapping[str, Any], envs: Array | None,
    count: int,
) -> int:  # fmt: skip
    """How many of the group's agents were there."""
    found = 0
    names = range(count) if envs is None else envs.tolist()
    live = vec._live if envs is None else vec._live[envs]
    for k, (agent, slot) in enumerate(zip(group.agents, group.slots.tolist(), strict=True)):
        value = actions.get(agent, _NOTHING)
        if value is _NOTHING:
            if live[:, slot].any():
                env = names[int(np.flatnonzero(live[:, slot])[0])]
                raise missing(vec._name, env, agent)
            continue
        found += 1
        who = [(row, env) for row, env in enumerate(names) if live[row, slot]]
        if not who:
            continue
        if not group.action.batchable:
            _check_length(vec, value, count, agent)
            for row, env in who:
                _beside(vec, env, agent, value[row])
            continue
        parts = _parts(vec, group, value, agent)
        for leaf, target, part in zip(group.action.leaves, leaves, parts, strict=True):
            _check_length(vec, part, count, agent)
            for row, env in who:
                target[env, k] = _checked(vec, leaf, part[row], env, agent)
    return found


def take_groups(vec: Core, actions: Any, envs: Array | None) -> None:
    """Actions by group, each (rows, A_g, …); arguments and errors as in `take_agents`."""
    spec, into = vec._spec, vec._backend.actions
    if not isinstance(actions, Mapping):
        if isinstance(actions, (list, tuple)) and any(isinstance(a, Mapping) for a in actions):
            return take_list(vec, actions, envs)
        if spec.kind == "aec":
            return _take_turns(vec, actions, envs)
        raise ActionError(
            f"{spec.name}: actions must be a dict of group to (N, A_g, …), got "
            f"{type(actions).__name__}; the groups are {list(vec.groups)}"
        )
    rows, count = _rows(vec, envs)
    _forget(vec, envs)
    for name in actions:
        if name not in vec.groups:
            raise unknown_agent(name, vec.groups, f"{spec.name}: actions by group: ")
    for group, leaves in zip(spec.groups, into.leaves, strict=True):
        value = actions.get(group.name, _NOTHING)
        if group.action.single and _group_at_once(group, leaves[0], value, rows, count):
            continue
        live = vec._live[rows][:, group.slots]
        if not live.any():
            continue
        if value is _NOTHING:
            row, k = np.argwhere(live)[0]
            env = int(row) if envs is None else int(envs[row])
            raise missing(vec._name, env, group.agents[k])
        if not group.action.batchable:
            for row, k in np.argwhere(live).tolist():
                env = row if envs is None else int(envs[row])
                _beside(vec, env, group.agents[k], value[row][k])
            continue
        parts = _parts(vec, group, value, group.name)
        for leaf, target, part in zip(group.action.leaves, leaves, parts, strict=True):
            want = (count, len(group), *leaf.shape)
            array = _array(vec, part, f"group {group.name!r}")
            if array.shape != want:
                raise ActionError(
                    f"{spec.name}: group {group.name!r}: expected actions of shape {want} "
                    f"(environment, agent, …), got {array.shape}"
                )
            if not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
                _refuse_dtype(vec, leaf, array, None, f"group {group.name!r}")
            target[rows] = array
    return None


def _group_at_once(group: Group, target: Any, value: Any, rows: Any, count: int) -> bool:
    leaf = group.action.leaves[0]
    if (
        type(value) is not np.ndarray
        or target is None
        or value.shape != (count, len(group), *leaf.shape)
        or (value.dtype != leaf.dtype and not np.can_cast(value.dtype, leaf.dtype, "same_kind"))
    ):
        return False
    target[rows] = value
    return True


def take_list(vec: Core, actions: Any, envs: Array | None) -> None:
    """One dict for each row; arguments and errors as in `take_agents`."""
    spec = vec._spec
    rows, count = _rows(vec, envs)
    if spec.kind == "aec" and not _dicts(actions):
        return _take_turns(vec, actions, envs)
    if not isinstance(actions, (list, tuple)):
        raise ActionError(
            f"{spec.name}: actions must be a list of {count} dicts, one for each environment"
            + ("" if vec.layout == "list" else ", or a dict of agent to (N, …)")
            + f", got {type(actions).__name__}"
        )
    if len(actions) != count:
        raise ActionError(
            f"{spec.name}: expected one dict of actions for each of {count} environments, got "
            f"{len(actions)}"
        )
    _forget(vec, envs)
    if vec._all_live and envs is None and isinstance(vec._backend, Serial):
        vec._backend.actions.ready = ready_actions(spec, actions)
        if vec._backend.actions.ready is not None:
            return None
    if vec._all_live and _lists_at_once(vec, actions, rows, count):
        return None
    names = range(count) if envs is None else envs.tolist()
    for given, env in zip(actions, names, strict=True):
        if not isinstance(given, Mapping):
            raise ActionError(
                f"{spec.name}: environment {env}: expected a dict of agent to action, got "
                f"{type(given).__name__}",
                world=env,
            )
        _one_environment(vec, given, env)
    return None


def _lists_at_once(vec: Core, actions: Sequence[Any], rows: Any, count: int) -> bool:
    group = vec._spec.groups[0]
    target = vec._backend.actions.leaves[0][0]
    if not (group.whole and group.action.single) or target is None:
        return False
    leaf, size = group.action.leaves[0], len(group)
    get = itemgetter(*group.agents) if size > 1 else None
    values: list[Any] = []
    try:
        for given in actions:
            if len(given) != size:
                return False
            if get is None:
                values.append(given[group.agents[0]])
            else:
                values += get(given)
        array = np.array(values)
        if array.shape != (count * size, *leaf.shape):
            return False
        if not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
            return False
        target[rows] = array.reshape(count, size, *leaf.shape)
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _one_environment(vec: Core, given: Mapping[str, Any], env: int) -> None:
    spec, side = vec._spec, vec._backend.actions.side
    live = vec._live[env]
    taken, beside = vec._strangers(env)
    done: set[int] = set()
    for agent, value in given.items():
        slot = spec.slot.get(agent, taken.get(agent))
        if slot is None:
            if agent not in beside:
                known = {**dict.fromkeys(spec.agents), **dict.fromkeys(beside)}
                raise unknown_agent(agent, known, f"{spec.name}: environment {env}: actions: ")
            side.setdefault(env, {})[agent] = copy_info(value)
            continue
        if not live[slot]:
            continue
        done.add(slot)
        g, k = spec.where[slot]
        group = spec.groups[g]
        if not group.action.batchable:
            _beside(vec, env, spec.agents[slot], value)
            continue
        leaves = vec._backend.actions.leaves[g]
        for leaf, target, part in zip(
            group.action.leaves, leaves, _parts(vec, group, value, agent), strict=True
        ):
            target[env, k] = _checked(vec, leaf, part, env, agent)
    if len(done) != live.sum():
        names = {slot: agent for agent, slot in taken.items()}
        for slot in np.flatnonzero(live).tolist():
            agent = names.get(slot, spec.agents[slot])
            if slot not in done:
                raise missing(vec._name, env, agent)
    for agent in beside:
        if agent not in given:
            raise missing(vec._name, env, agent)


def _take_turns(vec: Core, actions: Any, envs: Array | None) -> None:
    """One action for each environment, for whoever's turn it is."""
    from .aec import take_turn_actions

    _forget(vec, envs)
    everyone = np.arange(vec._count) if envs is None else envs
    take_turn_actions(vec._spec, vec._turn, actions, vec._backend.actions, everyone)


# ---- pieces -------------------------------------------------------------------------------


def _dicts(actions: Any) -> bool:
    return isinstance(actions, (list, tuple)) and any(isinstance(a, Mapping) for a in actions)


def _rows(vec: Core, envs: Array | None) -> tuple[Any, int]:
    return (slice(None), vec._count) if envs is None else (envs, len(envs))


def _forget(vec: Core, envs: Array | None) -> None:
    side = vec._backend.actions.side
    if side:
        for env in list(side) if envs is None else envs.tolist():
            side.pop(env, None)


def _beside(vec: Core, env: int, agent: str, value: Any) -> None:
    """Note an action that no array can hold; a copy, for it may be read after the call."""
    if value is None:
        raise missing(vec._name, env, agent, "its action is None")
    vec._backend.actions.side.setdefault(env, {})[agent] = copy_info(value)


def _parts(vec: Core, group: Group, value: Any, who: str) -> Sequence[Any]:
    try:
        return group.action.flatten(value)
    except (IndexError, KeyError, TypeError) as error:
        raise ActionError(
            f"{vec._name}: {who!r}: expected an action of {group.action.space}, got {value!r} "
            f"({error!r})",
            agent=who,
        ) from None


def _check_length(vec: Core, value: Any, count: int, agent: str) -> None:
    size = len(value) if hasattr(value, "__len__") and np.ndim(value) else None
    if size != count:
        came = f"{size} values" if size is not None else repr(value)
        raise ActionError(
            f"{vec._name}: agent {agent!r}: expected actions of length {count}, one for each "
            f"environment, got {came}",
            agent=agent,
        )


def _array(vec: Core, value: Any, who: str) -> Array:
    try:
        return np.asarray(value)
    except Exception as error:
        raise ActionError(f"{vec._name}: {who}: the actions are no array: {error}") from None


def _checked(vec: Core, leaf: Leaf, value: Any, env: int, agent: str) -> Any:
    """One value of the leaf's shape and a dtype that casts to its own."""
    where = f"{vec._name}: environment {env}, agent {agent!r}"
    if value is None:
        raise missing(vec._name, env, agent, "its action is None")
    return fitted(leaf, value, where, env, agent)


def _refuse_dtype(
    vec: Core, leaf: Leaf, array: Array, env: int | None, who: str, agent: str | None = None
) -> NoReturn:
    raise ActionError(
        f"{vec._name}: {who}: expected actions of dtype {leaf.dtype}, or one that casts to it "
        f"within its kind, got {array.dtype}",
        world=env, agent=agent,
    )  # fmt: skip
