"""Between frames and rows: row = environment · A + slot.

Everything here concerns environments in which everybody acts at once; `flat_turns` has the rows
of turn-based ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ActionError, ConfigError
from ..types import Array
from .contract import Actions, VecSpec
from .frames import Frame
from .infos import copy_info, flat_final_entries, flat_infos
from .leaves import OBJECT, Leaf

__all__ = ["Rows", "flat_spaces", "refuse_differing"]


def refuse_differing(spec: VecSpec) -> None:
    """Refuse agents whose spaces differ, which rows of one array can't hold.

    Raises:
        ConfigError: says which agents, how they differ, and what to do instead.
    """
    first = spec.groups[0]
    want = first.observation_spaces[0], first.action_spaces[0]
    for group in spec.groups:
        for agent, *spaces in zip(
            group.agents, group.observation_spaces, group.action_spaces, strict=True
        ):
            for kind, space, other in zip(("observation", "action"), spaces, want, strict=True):
                if space is not other and space != other:
                    raise ConfigError(
                        f'{spec.name}: layout="flat" needs the same spaces for all agents, because '
                        f"a row is an agent: the {kind} space of {first.agents[0]!r} is {other}, "
                        f'that of {agent!r} is {space}. Use layout="stacked" (one array for each '
                        'group of equal agents) or "dict", or make the spaces equal with a wrapper '
                        "that pads them"
                    )


def flat_spaces(spec: VecSpec, width: int) -> tuple[Any, Any, Any, Any]:
    """The four spaces that Gymnasium's vectors have.

    Args:
        spec: of the vector.
        width: rows of each environment.

    Returns:
        Single observation and action space, and those of all N · `width` rows. Where environments
        differ in the bounds of their spaces, each row of the latter has its own.
    """
    from copy import deepcopy

    from gymnasium.vector.utils import batch_differing_spaces, batch_space

    group = spec.groups[0]
    singles = [deepcopy(group.observation_space), deepcopy(group.action_space)]
    batched = []
    for which, single in enumerate(singles):
        every = [single] * (spec.num_envs * width)
        for env, spaces in enumerate(spec.env_spaces or ()):
            for slot, agent in enumerate(spec.agents[:width]):
                if agent in spaces:
                    every[env * width + slot] = spaces[agent][which]
        if all(space is single or space == single for space in every):
            batched.append(batch_space(single, len(every)))
        else:
            batched.append(batch_differing_spaces(every))
    return singles[0], singles[1], batched[0], batched[1]


class Rows:
    """One row for each environment and agent.

    Args:
        spec: of the vector; its agents have equal spaces.

    Attributes:
        width: rows of each environment.
        views: what comes back are views of the frame, not copies.
    """

    def __init__(self, spec: VecSpec) -> None:
        refuse_differing(spec)
        self.views = len(spec.groups) == 1
        self.spec, self.width = spec, len(spec.agents)
        self._one = spec.groups[0] if len(spec.groups) == 1 else None
        self._observation, self._action = spec.groups[0].observation, spec.groups[0].action
        self._usual = None  # (dtype, shape) of actions that are copied as they are
        if self._one is not None and self._action.single and self._action.batchable:
            leaf = self._action.leaves[0]
            self._usual = leaf.dtype, (spec.num_envs * self.width, *leaf.shape)

    # ---- from frames

    def look(self, frame: Frame, envs: Array) -> None:
        """Called with each new frame, and the environments of its rows, before anything else."""

    def observations(self, frame: Frame) -> Any:
        """(rows, …) in the form of the batched space; views of the frame where possible."""
        tree = self._observation
        if tree.single:
            return self._leaf(frame, 0)
        return tree.build([self._leaf(frame, k) for k in range(len(tree.leaves))])

    def _leaf(self, frame: Frame, k: int) -> Any:
        if self._one is not None:
            values = frame.obs[0][k]
        else:  # several groups of equal agents take turns in the slots
            shape = self._observation.leaves[k].shape
            values = np.empty((frame.rows, self.width, *shape), self._observation.leaves[k].dtype)
            for group, leaves in zip(self.spec.groups, frame.obs, strict=True):
                values[:, group.slots] = leaves[k]
        if values.dtype == OBJECT:
            return tuple(values.reshape(-1))
        return values.reshape(frame.rows * self.width, *values.shape[2:])

    def column(self, values: Array) -> Array:
        """(rows · A,) of what each agent has, (rows, A); a view."""
        return values.reshape(-1)

    def infos(self, frame: Frame, envs: Array, earned: dict[str, Any]) -> dict[str, Any]:
        """In Gymnasium's form, with who is live and what those who ended had `earned`."""
        spec, side = self.spec, frame.side
        infos: dict[str, Any] = flat_infos(spec, side, envs)
        if spec.mode == "same_step" and frame.over.any():
            infos.update(flat_final_entries(spec, frame, envs))
        if spec.kind == "gymnasium":
            return infos
        if earned and "episode" not in infos:
            infos.update(earned)
        infos["live"] = frame.live.reshape(-1).copy()
        infos["_live"] = np.ones(frame.rows * self.width, np.bool_)
        return infos

    # ---- to actions

    def take(
        self, into: Actions, actions: Any, envs: Array | None, live: Array, turn: Array
    ) -> None:
        """Write actions where the backend reads them.

        Args:
            into: of the backend.
            actions: (rows, …) in the form of the batched action space.
            envs: the environment of each `width` rows; None: all in order.
            live: (N, A) bool; rows of others are ignored.
            turn: (N,) whose turn it is, where agents take turns.

        Raises:
            ActionError: of a wrong structure, shape or dtype.
        """
        if (
            envs is None
            and type(actions) is np.ndarray
            and self._usual == (actions.dtype, actions.shape)
        ):
            target = into.leaves[0][0]
            target[...] = actions.reshape(target.shape)
            return
        where: Any = slice(None) if envs is None else envs
        count = self.spec.num_envs if envs is None else len(envs)
        forget(into, envs)
        parts = batched_parts(self.spec, actions, count * self.width)
        if not self._action.batchable:
            build, names = self._action.build, self.spec.agents
            for row, env in enumerate(range(count) if envs is None else envs.tolist()):
                for slot in np.flatnonzero(live[env]).tolist():
                    at = row * self.width + slot
                    action = copy_info(build([p[at] for p in parts]))
                    into.side.setdefault(env, {})[names[slot]] = action
            return
        for k, (leaf, part) in enumerate(zip(self._action.leaves, parts, strict=True)):
            block = part.reshape(count, self.width, *leaf.shape)
            if self._one is not None:
                into.leaves[0][k][where] = block
                continue
            for group, leaves in zip(self.spec.groups, into.leaves, strict=True):
                leaves[k][where] = block[:, group.slots]

    def pack(self, sampled: Sequence[dict[str, Any]]) -> Any:
        """Actions by agent, one dict for each environment, as rows; any action where none is."""
        tree = self._action
        values = [one.get(agent) for one in sampled for agent in self.spec.agents]
        return pack_values(tree, values)


# ---- pieces that rows of turn-based environments need, too --------------------------------


def forget(into: Actions, envs: Array | None) -> None:
    """Drop what was written beside the arrays for these environments."""
    if into.side:
        for env in list(into.side) if envs is None else envs.tolist():
            into.side.pop(env, None)


def batched_parts(spec: VecSpec, actions: Any, rows: int) -> list[Any]:
    """The leaves of batched actions: arrays (rows, …) that cast to the leaf's dtype.

    Leaves that can't be batched are sequences of `rows` values.

    Raises:
        ActionError: of a wrong structure, shape or dtype.
    """
    tree = spec.groups[0].action
    if tree.single:
        return [_part(spec, tree.leaves[0], actions, rows)]
    try:
        parts = tree.flatten(actions)
    except (IndexError, KeyError, TypeError) as error:
        raise ActionError(
            f"{spec.name}: expected actions of {rows} rows of {tree.space}, leaf by leaf, got "
            f"{actions!r:.200} ({error!r})"
        ) from None
    return [_part(spec, leaf, part, rows) for leaf, part in zip(tree.leaves, parts, strict=True)]


def _part(spec: VecSpec, leaf: Leaf, part: Any, rows: int) -> Any:
    where = "actions" + "".join(f"[{key!r}]" for key in leaf.path)
    if leaf.dtype == OBJECT:
        size = len(part) if hasattr(part, "__len__") and not isinstance(part, str) else None
        if size != rows:
            raise ActionError(
                f"{spec.name}: {where}: expected a sequence of {rows} values, one for each row, "
                f"got {size if size is not None else repr(part)}"
            )
        return part
    try:
        array = np.asarray(part)
    except Exception as error:  # ragged lists, tensors elsewhere: numpy or the tensor says it
        raise ActionError(f"{spec.name}: {where}: these are no array: {error}") from None
    want = (rows, *leaf.shape)
    if array.shape != want:
        if leaf.shape not in ((), (1,)) or array.shape not in ((rows,), (rows, 1)):
            raise ActionError(
                f"{spec.name}: {where}: expected shape {want}, a row for each "
                f"{_row_name(spec, rows)}, got {array.shape}"
            )
        array = array.reshape(want)
    if array.dtype != leaf.dtype and not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
        raise ActionError(
            f"{spec.name}: {where}: expected dtype {leaf.dtype}, or one that casts to it within "
            f"its kind, got {array.dtype}"
        )
    return array


def _row_name(spec: VecSpec, rows: int) -> str:
    if spec.kind in ("gymnasium", "aec"):
        return "environment"
    return f"agent of each of {rows // len(spec.agents)} environments"


def pack_values(tree: Any, values: Sequence[Any]) -> Any:
    """Single actions put together leaf by leaf; any action where there is None."""
    flat = [None if value is None else tree.flatten(value) for value in values]
    parts: list[Any] = []
    for k, leaf in enumerate(tree.leaves):
        found = [leaf.space.sample() if one is None else one[k] for one in flat]
        if leaf.dtype == OBJECT:
            parts.append(tuple(found))
        else:
            parts.append(np.array(found, leaf.dtype).reshape(len(values), *leaf.shape))
    return parts[0] if tree.single else tree.build(parts)
