"""Wrappers for the layouts stacked and dict that know who is there and who is not.

Observations of absent agents are filler and stay filler: they are neither counted nor stacked nor
normalized. In same-step mode the last observations in ``infos["final_obs"]`` are changed like all
others. Of a Dict observation every leaf is changed that can be, but never an action mask.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import Array, whole
from .leaves import Leaf, Tree, is_mask
from .normalizing import NormalizeObservation, NormalizeReward
from .observing import Arrays, ObservationWrapper, rebuilt
from .wrapping import Rows, VectorWrapper

__all__ = [
    "AgentOneHot", "FrameStack", "NormalizeObservation", "NormalizeReward", "ObservationWrapper",
    "VectorWrapper",
]  # fmt: skip


class FrameStack(ObservationWrapper):
    """The last `size` observations of each agent, the newest last, along a new first axis.

    An agent's first observation, at its birth or after a reset, fills its stack; an agent that
    pauses finds its stack as it was. Changed is every leaf that can be batched and is no action
    mask: Boxes become Boxes of shape (size, …), Discrete and the like MultiDiscrete ones.

    Args:
        vec: in the layout stacked or dict.
        size: how many observations.
        leave: names of further entries of Dict observations to leave alone.
    """

    def __init__(self, vec: Any, size: int, leave: Collection[str] = ()) -> None:
        depth = whole(size)
        if depth is None or depth < 1:
            raise ConfigError(f"FrameStack(size=…): expected a whole number from 1, got {size!r}")
        self.size = depth
        self._leave = frozenset([leave] if isinstance(leave, str) else leave)
        super().__init__(vec)
        spec = self._spec_of
        self._stacks: list[list[Array | None]] = [
            [
                np.zeros((spec.num_envs, len(group), depth, *leaf.shape), leaf.dtype)
                if self._changes(leaf) else None
                for leaf in tree.leaves
            ]
            for group, tree in zip(spec.groups, self._in, strict=True)
        ]  # fmt: skip
        # Who has a stack to go on with.
        self._goes_on = np.zeros((spec.num_envs, len(spec.agents)), np.bool_)

    def _changes(self, leaf: Leaf) -> bool:
        return not is_mask(leaf) and self._leave.isdisjoint(leaf.path)

    def _space(self, g: int, agent: str, space: Any) -> Any:
        from gymnasium.vector.utils import batch_space

        def change(leaf: Leaf) -> Any:
            return batch_space(leaf.space, self.size) if self._changes(leaf) else leaf.space

        return rebuilt(space, change)

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        self._goes_on[slice(None) if self._chosen is None else self._chosen] = False

    def _finish(self, rows: Rows, row: int, g: int, k: int, leaves: Sequence[Any]) -> list[Any]:
        env = int(rows.envs[row])
        goes_on = self._goes_on[env, self._spec_of.groups[g].slots[k]]
        out = []
        for stack, value in zip(self._stacks[g], leaves, strict=True):
            if stack is None:
                out.append(value)
                continue
            shown = stack[env, k].copy()
            shown[:-1] = shown[1:] if goes_on else value
            shown[-1] = value
            out.append(shown)
        return out

    def _observe(self, rows: Rows, arrays: Arrays) -> Arrays:
        envs = rows.envs
        if rows.fresh.any():
            self._goes_on[envs[rows.fresh]] = False
        before = self._goes_on[envs]
        out: Arrays = []
        for group, stacks, leaves in zip(self._spec_of.groups, self._stacks, arrays, strict=True):
            new, seen = rows.new[:, group.slots], rows.seen[:, group.slots]
            goes_on = before[:, group.slots]
            shown = []
            for stack, values in zip(stacks, leaves, strict=True):
                shown.append(
                    values if stack is None else _pushed(stack, envs, values, new, seen, goes_on)
                )
            out.append(shown)
        # Whose life ended in an episode that goes on is born anew if it comes again.
        ended = rows.ended & ~rows.fresh[:, None]
        self._goes_on[envs] = (before | rows.new) & ~ended
        return out


def _pushed(
    stack: Array, envs: Array, values: Array, new: Array, seen: Array, goes_on: Array
) -> Array:
    """Put observations into their stacks, and what is shown of them, (rows, A_g, size, …)."""
    now = stack[envs]
    first = new & ~goes_on
    if new.all() and not first.any():
        now[:, :, :-1] = now[:, :, 1:]
        now[:, :, -1] = values
    else:
        more = new & goes_on
        now[more, :-1] = now[more, 1:]
        now[more, -1] = values[more]
        now[first] = values[first][:, None]
    stack[envs] = now
    if not seen.all():
        now[~seen] = values[~seen][:, None]
    return now


class AgentOneHot(ObservationWrapper):
    """Who an agent is, as a one-hot vector at the end of its observation.

    A vector gets the one-hot as further elements, a picture (height, width, channels) as further
    channels. A Dict observation gets it in its entry ``"observation"`` if it has one that is a
    vector or a picture, otherwise as a new entry ``"agent"``. Absent agents get zeros.

    Args:
        vec: in the layout stacked or dict.
        scope: "group": the place among the agents of the group; "all": among all agents.

    Raises:
        ConfigError: an observation that is none of these.
    """

    def __init__(self, vec: Any, scope: str = "group") -> None:
        if scope not in ("group", "all"):
            raise ConfigError(f"AgentOneHot(scope=…): expected 'group' or 'all', got {scope!r}")
        self.scope = scope
        self._total = len(vec.possible_agents) if scope == "all" else None
        self._sizes = [self._total or len(members) for members in vec.groups.values()]
        super().__init__(vec)
        self._onto: list[int | None] = []
        self._order: list[list[int]] = []
        self._codes: list[Array] = []
        for g, group in enumerate(self._spec_of.groups):
            onto = _target(self._in[g])
            self._onto.append(onto)
            paths = [leaf.path for leaf in self._in[g].leaves]
            if onto is None:
                paths.append(("agent",))
            self._order.append([paths.index(leaf.path) for leaf in self._out[g].leaves])
            places = group.slots if scope == "all" else np.arange(len(group))
            kind: Any = np.float32 if onto is None else self._in[g].leaves[onto].dtype
            self._codes.append(np.eye(self._sizes[g], dtype=kind)[places])

    def _space(self, g: int, agent: str, space: Any) -> Any:
        from gymnasium import spaces

        tree, size = Tree(space), self._sizes[g]
        onto = _target(tree)
        if onto is None:
            if type(space) is not spaces.Dict:
                raise ConfigError(
                    "AgentOneHot: expected a Box of shape (n,) or (height, width, channels), or a "
                    f"Dict, as the observation of {agent!r}, got {space}"
                )
            if "agent" in space.spaces:
                raise ConfigError(
                    f"AgentOneHot: the observation of {agent!r} has an entry 'agent' already"
                )
            entry = spaces.Box(0, 1, (size,), np.float32)
            return spaces.Dict(OrderedDict([*space.items(), ("agent", entry)]))
        path = tree.leaves[onto].path

        def change(leaf: Leaf) -> Any:
            if leaf.path != path:
                return leaf.space
            shape = (*leaf.shape[:-1], size)
            low = np.concatenate([leaf.space.low, np.zeros(shape, leaf.dtype)], -1)
            high = np.concatenate([leaf.space.high, np.ones(shape, leaf.dtype)], -1)
            return spaces.Box(low, high, dtype=leaf.dtype.type)

        return rebuilt(space, change)

    def _finish(self, rows: Rows, row: int, g: int, k: int, leaves: Sequence[Any]) -> list[Any]:
        return self._added(g, [np.asarray(leaf) for leaf in leaves], self._codes[g][k])

    def _observe(self, rows: Rows, arrays: Arrays) -> Arrays:
        out: Arrays = []
        for g, group in enumerate(self._spec_of.groups):
            seen = rows.seen[:, group.slots]
            codes = self._codes[g] * seen[:, :, None].astype(self._codes[g].dtype)
            out.append(self._added(g, arrays[g], codes))
        return out

    def _added(self, g: int, leaves: Sequence[Any], code: Array) -> list[Any]:
        """With the one-hot of each agent; its leading axes are those of the leaves."""
        onto, values = self._onto[g], list(leaves)
        if onto is None:
            values.append(code.copy())
        else:
            target = values[onto]
            if len(self._in[g].leaves[onto].shape) == 3:
                code = np.broadcast_to(
                    code[..., None, None, :], (*target.shape[:-1], code.shape[-1])
                )
            values[onto] = np.concatenate([target, code], -1)
        return [values[at] for at in self._order[g]]


def _target(tree: Tree) -> int | None:
    """Which leaf the one-hot is put onto; None: it becomes a leaf of its own."""
    from gymnasium import spaces

    for at, leaf in enumerate(tree.leaves):
        if (
            leaf.path in ((), ("observation",))
            and isinstance(leaf.space, spaces.Box)
            and len(leaf.shape) in (1, 3)
        ):
            return at
    return None
