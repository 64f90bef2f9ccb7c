"""All arrays of one step's results, and whose turn it is to be written next.

A frame is one block of memory, private or shared between processes. What a caller is given are
views of it, and a frame is written again only when nobody holds one any more: so results are the
caller's to keep, and yet nothing is copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OutOfMemoryError
from ..types import Array
from .contract import FLAGGED, OBSERVED, REWARDED, Side, VecSpec
from .leaves import OBJECT

__all__ = ["Frame", "FrameLayout", "FrameRing"]

_ALIGN = 64


class FrameLayout:
    """Where everything stands in a frame.

    Args:
        spec: of the vector.
        rows: how many environments; N by default.

    Attributes:
        nbytes: the size of a frame.
    """

    def __init__(self, spec: VecSpec, rows: int | None = None) -> None:
        self.spec = spec
        self.rows = n = spec.num_envs if rows is None else rows
        a = len(spec.agents)
        self.nbytes = 0
        self._fields: dict[str, tuple[int, np.dtype[Any], tuple[int, ...]]] = {}
        # The flags side by side, so that a step in which nothing happens fills them in one go.
        self._add("flags", np.bool_, (2, n, a))
        self._add("lives", np.bool_, (2, n, a))
        self._add("seen", np.uint8, (n, a))
        self._add("over", np.bool_, (n,))
        self._add("was_reset", np.bool_, (n,))
        self._add("turn", np.int64, (n,))
        self.head = self.nbytes  # what stands before is the same in every usual step
        self._add("reward", np.float64, (n, a))
        kinds = ("obs", "final_obs") if spec.mode == "same_step" else ("obs",)
        for kind in kinds:
            for g, group in enumerate(spec.groups):
                for k, leaf in enumerate(group.observation.leaves):
                    if leaf.dtype != OBJECT:
                        self._add(f"{kind} {g} {k}", leaf.dtype, (n, len(group), *leaf.shape))
        if spec.mode == "same_step":
            self._add("final_seen", np.uint8, (n, a))

    def _add(self, name: str, dtype: Any, shape: tuple[int, ...]) -> None:
        dtype = np.dtype(dtype)
        self._fields[name] = (self.nbytes, dtype, shape)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        self.nbytes = -(-(self.nbytes + size) // _ALIGN) * _ALIGN

    def view(self, root: Array, name: str) -> Array | None:
        """The array of a field in the block `root`, (nbytes,) uint8."""
        if name not in self._fields:
            return None
        start, dtype, shape = self._fields[name]
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        field: Array = root[start : start + size].view(dtype).reshape(shape)
        return field

    def usual_head(self) -> Array:
        """(head,) uint8: everybody lives, was heard of, and nothing ends."""
        frame = self.new()
        frame.lives[:] = True
        frame.seen[:] = OBSERVED | REWARDED | FLAGGED
        frame.turn[:] = -1
        head: Array = frame.root[: self.head].copy()
        return head

    def new(self) -> Frame:
        """A frame in memory of its own, zeroed."""
        return Frame(self, _memory(self))


def _memory(layout: FrameLayout) -> Array:
    try:
        return np.zeros(layout.nbytes, np.uint8)
    except MemoryError:
        raise OutOfMemoryError(
            f"{layout.spec.name}: no memory for the results of {layout.rows} environments "
            f"({layout.nbytes / 2**20:.0f} MiB a step)"
        ) from None


class Frame:
    """The results of one step; rows are environments.

    Attributes:
        obs: [group][leaf] (rows, A_g, ...) of the leaf's dtype.
        reward: (rows, A) float64.
        terminated, truncated: (rows, A) bool.
        live: (rows, A) bool, who must be given an action next.
        acted: (rows, A) bool, who was live before this step.
        over: (rows,) bool, the episode ended in this step.
        was_reset: (rows,) bool, this step was an automatic reset of next-step mode.
        turn: (rows,) int64, the slot that acts next in a turn-based environment.
        seen: (rows, A) uint8, what was reported of whom; bits of `contract`.
        final_obs, final_seen: in same-step mode what `obs` and `seen` were before the reset,
            in the rows that are `over`.
        side: what arrays can't carry.
        usual: everybody lived before and lives on, was heard of, and nothing ended.
        results: then what each environment returned, where the layout can use it.

    These arrays belong to the frame: hand out views (``frame.reward[:]``), never the arrays
    themselves, or nobody knows when the memory may be used again.
    """

    def __init__(self, layout: FrameLayout, root: Array, readonly: bool = False) -> None:
        self.layout, self.root, self.rows = layout, root, layout.rows
        spec = layout.spec
        if readonly:
            root = root[:]
            root.flags.writeable = False
        view: Callable[[Array, str], Any] = layout.view
        self.flags: Any = view(root, "flags")
        self.lives: Any = view(root, "lives")
        self.terminated, self.truncated = self.flags[0], self.flags[1]
        self.live, self.acted = self.lives[0], self.lives[1]
        self.seen: Any = view(root, "seen")
        self.over: Any = view(root, "over")
        self.was_reset: Any = view(root, "was_reset")
        self.turn: Any = view(root, "turn")
        self.reward: Any = view(root, "reward")
        self.obs = self._leaves(spec, root, "obs")
        same = spec.mode == "same_step"
        self.final_obs = self._leaves(spec, root, "final_obs") if same else None
        self.final_seen: Any = view(root, "final_seen")
        self.side = Side()
        self.usual = False
        self.results: list[Any] | None = None
        self.memo: dict[Any, Any] = {}  # what a writer computes once for a frame

    def _leaves(self, spec: VecSpec, root: Array, kind: str) -> list[list[Any]]:
        return [
            [
                np.empty((self.rows, len(group)), object) if leaf.dtype == OBJECT
                else self.layout.view(root, f"{kind} {g} {k}")
                for k, leaf in enumerate(group.observation.leaves)
            ]
            for g, group in enumerate(spec.groups)
        ]  # fmt: skip

    def copy(self) -> Frame:
        """The same in memory of its own. Takes the side along."""
        frame = Frame(self.layout, self.root.copy())
        frame.take_objects(self)
        frame.side, frame.usual = self.side, self.usual
        return frame

    def take_objects(self, other: Frame) -> None:
        """Copy the leaves that can't be batched, which live outside the block."""
        for mine, its in ((self.obs, other.obs), (self.final_obs, other.final_obs)):
            for a, b in zip(mine or [], its or [], strict=True):
                for x, y in zip(a, b, strict=True):
                    if x.dtype == OBJECT:
                        x[...] = y

    def become(self, other: Frame) -> None:
        """Take over all values of another frame, but not its side."""
        self.root[:] = other.root
        self.take_objects(other)
        self.usual = False

    def take_rows(self, other: Frame, envs: Array) -> None:
        """Take over the values of some rows of another frame of this layout."""
        for name in self.layout._fields:
            source: Any = self.layout.view(other.root, name)
            target: Any = self.layout.view(self.root, name)
            if name in ("flags", "lives"):
                target[:, envs] = source[:, envs]
            else:
                target[envs] = source[envs]
        for mine, its in ((self.obs, other.obs), (self.final_obs, other.final_obs)):
            for a, b in zip(mine or [], its or [], strict=True):
                for x, y in zip(a, b, strict=True):
                    if x.dtype == OBJECT:
                        x[envs] = y[envs]

    def pick(self, envs: Array, into: FrameLayout) -> Frame:
        """The rows of some environments, as a frame of its own. Its side is empty."""
        out = into.new()
        for name in into._fields:
            source: Any = self.layout.view(self.root, name)
            target: Any = into.view(out.root, name)
            if name in ("flags", "lives"):
                target[:] = source[:, envs]
            else:
                target[:] = source[envs]
        for mine, its in ((out.obs, self.obs), (out.final_obs, self.final_obs)):
            for a, b in zip(mine or [], its or [], strict=True):
                for x, y in zip(a, b, strict=True):
                    if x.dtype == OBJECT:
                        x[...] = y[envs]
        return out


class FrameRing:
    """Frames that are used again once nobody looks at them.

    Args:
        layout: of every frame.
        size: how many there are at first, at least 2.
        make: gives the memory of frame number k, (nbytes,) uint8; None: private memory.
        copy: False: frames are handed out read-only and used in turn, whoever still looks.

    Attributes:
        last: the frame that was written last; never the next one.
    """

    def __init__(
        self,
        layout: FrameLayout,
        size: int = 4,
        make: Callable[[int], Array] | None = None,
        copy: bool = True,
    ) -> None:
        self._layout, self._private, self._copy = layout, make is None, copy
        roots = [_memory(layout) if make is None else make(k)
                 for k in range(size)]  # fmt: skip
        self.frames = [Frame(layout, root) for root in roots]
        del roots
        self._shown = (
            {} if copy else {k: Frame(layout, f.root, True) for k, f in enumerate(self.frames)}
        )
        self._idle = [sys.getrefcount(frame.root) for frame in self.frames]
        self.index = 0

    @property
    def last(self) -> Frame:
        """What was written last."""
        return self.frames[self.index]

    def next(self) -> Frame | None:
        """The frame to write now, from then on `last`; None: all are still looked at.

        Private rings never run out: a frame that is looked at too long is left to who looks.
        """
        count = len(self.frames)
        for k, frame in enumerate(self.frames):  # the fewer are in use, the more stay cached
            if k == self.index:
                continue
            if not self._copy or sys.getrefcount(frame.root) <= self._idle[k]:
                self.index = k
                frame.usual = False
                if frame.side:
                    frame.side = Side()
                return frame
        if not self._private:
            return None
        k = (self.index + 1) % count
        frame = self._layout.new()
        self.frames[k] = frame
        self._idle[k] = sys.getrefcount(frame.root)
        self.index = k
        return frame

    def shown(self, frame: Frame) -> Frame:
        """The frame as it is handed out: itself, or its read-only twin."""
        if self._copy:
            return frame
        twin = self._shown[self.frames.index(frame)]
        twin.take_objects(frame)
        twin.side, twin.usual, twin.results = frame.side, frame.usual, frame.results
        return twin
