"""Observations and rewards in units of their spread, counting only who is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, SnapshotError
from ..types import Array
from .leaves import Leaf, is_mask
from .moments import Moments
from .observing import Arrays, Last, ObservationWrapper, rebuilt
from .wrapping import Rows, VectorWrapper, matrix, unmatrix

__all__ = ["NormalizeObservation", "NormalizeReward"]

State = dict[str, Any]


class NormalizeObservation(ObservationWrapper):
    """Observations with mean 0 and variance 1, by the moments of each group so far.

    Changed are leaves that are a Box and no action mask: they become float32 (float64 stays).
    All agents of a group share the moments.

    Args:
        vec: in the layout stacked or dict.
        epsilon: added to the variance.
        clip: the largest value that is shown, and its negative the smallest; None: any.
        leave: names of further entries of Dict observations to leave alone.

    Attributes:
        training: whether observations change the moments. Set it to False for evaluation.
        moments: group -> for each leaf its `Moments`, or None where it is left alone.
    """

    def __init__(
        self, vec: Any, epsilon: float = 1e-8, clip: float | None = None,
        leave: Collection[str] = (),
    ) -> None:  # fmt: skip
        if not epsilon > 0:
            raise ConfigError(f"NormalizeObservation(epsilon=…): expected > 0, got {epsilon!r}")
        if clip is not None and not clip > 0:
            raise ConfigError(f"NormalizeObservation(clip=…): expected > 0 or None, got {clip!r}")
        self.epsilon, self.clip, self.training = epsilon, clip, True
        self._leave = frozenset([leave] if isinstance(leave, str) else leave)
        super().__init__(vec)
        self._moments: list[list[Moments | None]] = [
            [Moments(leaf.shape) if self._changes(leaf) else None for leaf in tree.leaves]
            for tree in self._in
        ]
        self.moments = {
            group.name: moments
            for group, moments in zip(self._spec_of.groups, self._moments, strict=True)
        }

    def state_dict(self) -> State:
        """The moments: group -> one entry for each leaf."""
        return {
            name: [None if m is None else m.state_dict() for m in moments]
            for name, moments in self.moments.items()
        }

    def load_state_dict(self, state: State) -> None:
        """Take over moments.

        Raises:
            SnapshotError: they are of other groups or other leaves.
        """
        _load("NormalizeObservation", self.moments, state)

    def _changes(self, leaf: Leaf) -> bool:
        from gymnasium import spaces

        return (
            isinstance(leaf.space, spaces.Box)
            and not is_mask(leaf)
            and self._leave.isdisjoint(leaf.path)
        )

    def _space(self, g: int, agent: str, space: Any) -> Any:
        from gymnasium import spaces

        limit = np.inf if self.clip is None else self.clip

        def change(leaf: Leaf) -> Any:
            if not self._changes(leaf):
                return leaf.space
            kind: Any = np.float64 if leaf.dtype == np.float64 else np.float32
            return spaces.Box(-limit, limit, leaf.shape, kind)

        return rebuilt(space, change)

    def _learn(self, rows: Rows, arrays: Arrays, finals: list[Last]) -> None:
        if not self.training:
            return
        for g, (group, moments) in enumerate(zip(self._spec_of.groups, self._moments, strict=True)):
            new = rows.new[:, group.slots]
            lasts = [leaves for _, of, _, leaves in finals if of == g]
            for at, its in enumerate(moments):
                if its is not None:
                    its.add(arrays[g][at][new])
                    if lasts:
                        its.add(np.stack([leaves[at] for leaves in lasts]))

    def _finish(self, rows: Rows, row: int, g: int, k: int, leaves: Sequence[Any]) -> list[Any]:
        return [
            value if its is None else self._normal(np.asarray(value), its, leaf.dtype)
            for value, its, leaf in zip(leaves, self._moments[g], self._out[g].leaves, strict=True)
        ]

    def _observe(self, rows: Rows, arrays: Arrays) -> Arrays:
        out: Arrays = []
        for group, moments, leaves, tree in zip(
            self._spec_of.groups, self._moments, arrays, self._out, strict=True
        ):
            seen = rows.seen[:, group.slots]
            whole = bool(seen.all())
            shown = []
            for its, values, leaf in zip(moments, leaves, tree.leaves, strict=True):
                if its is None:
                    shown.append(values)
                    continue
                normal = self._normal(values, its, leaf.dtype)
                if not whole:
                    normal[~seen] = 0
                shown.append(normal)
            out.append(shown)
        return out

    def _normal(self, values: Array, its: Moments, dtype: Any) -> Array:
        scale = 1.0 / np.sqrt(its.variance + self.epsilon)
        out: Array = ((values - its.mean) * scale).astype(dtype)
        if self.clip is not None:
            np.clip(out, -self.clip, self.clip, out=out)
        return out


class NormalizeReward(VectorWrapper):
    """Rewards divided by the standard deviation of the discounted return, group by group.

    Each agent has a discounted return, R ← γ R + r, which begins at 0 with each life; the moments
    are those of R after the steps in which agents acted.

    Args:
        vec: in the layout stacked or dict.
        gamma: γ, the discount per step, from 0 to 1.
        epsilon: added to the variance.
        clip: the largest reward that is shown, and its negative the smallest; None: any.

    Attributes:
        training: whether rewards change the moments. Set it to False for evaluation.
        moments: group -> its `Moments`.
    """

    layouts = ("dict", "stacked")

    def __init__(
        self, vec: Any, gamma: float = 0.99, epsilon: float = 1e-8, clip: float | None = None
    ) -> None:
        super().__init__(vec)
        if not 0 <= gamma <= 1:
            raise ConfigError(f"NormalizeReward(gamma=…): expected from 0 to 1, got {gamma!r}")
        if not epsilon > 0:
            raise ConfigError(f"NormalizeReward(epsilon=…): expected > 0, got {epsilon!r}")
        if clip is not None and not clip > 0:
            raise ConfigError(f"NormalizeReward(clip=…): expected > 0 or None, got {clip!r}")
        self.gamma, self.epsilon, self.clip, self.training = gamma, epsilon, clip, True
        spec = self._spec_of
        self.moments = {group.name: Moments() for group in spec.groups}
        self._return: Array = np.zeros((spec.num_envs, len(spec.agents)))

    def state_dict(self) -> State:
        """The moments: group -> their state."""
        return {name: moments.state_dict() for name, moments in self.moments.items()}

    def load_state_dict(self, state: State) -> None:
        """Take over moments.

        Raises:
            SnapshotError: they are of other groups.
        """
        _load("NormalizeReward", {k: [m] for k, m in self.moments.items()},
              {k: [v] for k, v in state.items()})  # fmt: skip

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        self._return[slice(None) if self._chosen is None else self._chosen] = 0.0

    def _after(
        self, rows: Rows, obs: Any, rewards: Any, terms: Any, truncs: Any, infos: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        earned = matrix(self, rewards)
        counts = rows.earned
        now = self._return[rows.envs]
        now = np.where(counts, now * self.gamma + earned, now)
        shown = np.empty_like(earned)
        for group in self._spec_of.groups:
            columns: Any = slice(None) if group.whole else group.slots
            moments = self.moments[group.name]
            if self.training:
                moments.add(now[:, columns][counts[:, columns]])
            shown[:, columns] = earned[:, columns] / np.sqrt(moments.variance + self.epsilon)
        if self.clip is not None:
            np.clip(shown, -self.clip, self.clip, out=shown)
        now[rows.ended | (rows.over | rows.fresh)[:, None]] = 0.0
        self._return[rows.envs] = now
        return obs, unmatrix(self, shown), terms, truncs, infos


def _load(name: str, moments: Mapping[str, Sequence[Moments | None]], state: State) -> None:
    """Put a state into moments, all or nothing."""
    if not isinstance(state, Mapping) or set(state) != set(moments):
        raise SnapshotError(
            f"{name}.load_state_dict: expected the groups {sorted(moments)}, got "
            f"{sorted(map(str, state)) if isinstance(state, Mapping) else state!r}"
        )
    pairs: list[tuple[Moments, Any]] = []
    for group, those in moments.items():
        given = state[group]
        if len(given) != len(those) or any(
            (a is None) != (b is None) for a, b in zip(those, given, strict=False)
        ):
            raise SnapshotError(f"{name}.load_state_dict: group {group!r} has other leaves")
        pairs += [(m, g) for m, g in zip(those, given, strict=True) if m is not None]
    for those_moments, one in pairs:
        Moments(those_moments.mean.shape).load_state_dict(one)  # raises before any is changed
    for those_moments, one in pairs:
        those_moments.load_state_dict(one)
