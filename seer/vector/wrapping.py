"""What wrappers around a vector have in common.

A wrapper stands in for its vector: whatever it doesn't change itself is the vector's. Wrappers
can be put around each other in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import Array, BoolArray
from .base import Core
from .contract import OBSERVED, REWARDED, VecSpec

__all__ = ["Rows", "VectorWrapper", "matrix", "unmatrix"]


class Rows:
    """Whom the rows of one result stand for.

    Args:
        vec: the innermost vector, after a reset, step or recv.
        chosen: (N,) bool, after a reset of some environments which; None otherwise.
        begun: (N,) bool, which environments were reset since their last result.

    Attributes:
        envs: (rows,) environments.
        seen: (rows, A) bool, whose observation is real and not filler.
        new: (rows, A) bool, the same without those that a partial reset left as they were.
        fresh: (rows,) bool, the observation is the first of an episode.
        acted: (rows, A) bool, who was live before the step.
        earned: (rows, A) bool, whose reward is one to reckon with.
        ended: (rows, A) bool, who was terminated or truncated in it.
        over: (rows,) bool, whose environment ended in it.
    """

    __slots__ = ("acted", "earned", "ended", "envs", "fresh", "new", "over", "seen")

    def __init__(self, vec: Any, chosen: BoolArray | None, begun: BoolArray) -> None:
        frame = vec._frame
        self.envs: Array = vec.env_ids
        self.seen: BoolArray = (frame.seen & OBSERVED) != 0
        self.acted: BoolArray = frame.acted
        # Taking turns, an agent hears of its reward when it is to act again.
        turns = vec._spec.kind == "aec"
        self.earned: BoolArray = (frame.seen & REWARDED) != 0 if turns else frame.acted
        self.over: BoolArray = frame.over
        self.ended: BoolArray = frame.terminated | frame.truncated
        self.fresh: BoolArray = frame.was_reset | begun[self.envs]
        if vec._spec.mode == "same_step":
            self.fresh |= frame.over
        self.new = self.seen if chosen is None else self.seen & chosen[:, None]


class VectorWrapper:
    """Stands in for a vector; the base of all wrappers.

    Args:
        vec: a vector of `make_vec` in one of `layouts`, or a wrapper of one.

    Attributes:
        vec: what is wrapped.
        unwrapped: the vector inside all wrappers.

    Raises:
        ConfigError: it is something else.
    """

    layouts: tuple[str, ...] = ("dict", "stacked", "list")

    def __init__(self, vec: Any) -> None:
        self.vec = vec
        if not isinstance(vec, (Core, VectorWrapper)):
            instead = (
                "put wrappers around the vector first, and call torch() last"
                if hasattr(vec, "vec") else
                "it goes around what make_vec returns; for single environments there are the "
                "wrappers of Gymnasium, PettingZoo and SuperSuit: make_vec(..., wrappers=[...])"
            )  # fmt: skip
            raise ConfigError(
                f"{type(self).__name__}: expected a vector that seer.make_vec made, got "
                f"{type(vec).__module__}.{type(vec).__qualname__}; {instead}"
            )
        if vec.layout not in self.layouts:
            instead = (
                "; Gymnasium's vector wrappers (gymnasium.wrappers.vector) are for it, and "
                "make_vec(..., wrappers=[...]) wraps each environment"
                if vec.layout == "flat" else ""
            )  # fmt: skip
            raise ConfigError(
                f"{type(self).__name__} needs a layout of {list(self.layouts)}, got "
                f"{vec.layout!r}{instead}"
            )
        inner: Any = vec
        self.unwrapped: Any = inner.unwrapped
        self._spec_of: VecSpec = self.unwrapped._spec
        self._chosen: BoolArray | None = None
        self._begun: BoolArray = np.zeros(self._spec_of.num_envs, np.bool_)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "vec":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.vec, name)

    # ---- what a wrapper changes

    def _before(self, actions: Any) -> Any:
        """Actions for the vector inside."""
        return actions

    def _after_reset(self, rows: Rows, obs: Any, infos: Any) -> tuple[Any, Any]:
        """What a reset gives."""
        return obs, infos

    def _after(
        self, rows: Rows, obs: Any, rewards: Any, terms: Any, truncs: Any, infos: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        """What a step gives."""
        return obs, rewards, terms, truncs, infos

    # ---- what stays

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Begin episodes; see the vector's own."""
        obs, infos = self.vec.reset(seed=seed, options=options)
        self._begin(options)
        rows = self._rows()
        self._chosen = None
        return self._after_reset(rows, obs, infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step every environment; see the vector's own."""
        out = self.vec.step(self._before(actions))
        return self._after(self._rows(), *out)

    def async_reset(self, seed: Any = None, options: Any = None) -> None:
        """Begin episodes, to be received; see the vector's own."""
        self.vec.async_reset(seed, options)
        self._begin(options)
        self._chosen = None

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Let environments step; see the vector's own."""
        self.vec.send(self._before(actions), env_ids)

    def recv(self) -> tuple[Any, Any, Any, Any, Any]:
        """The results of those that are ready; see the vector's own."""
        out = self.vec.recv()
        return self._after(self._rows(), *out)

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's action space, always the same object."""
        return self.action_spaces[agent]

    def torch(self) -> Any:
        """The same with CPU tensors in place of arrays, without a copy."""
        from .torch import TorchVectorEnv

        return TorchVectorEnv(self)

    def close(self, timeout: float | None = None) -> None:
        """Close every environment; see the vector's own."""
        self.vec.close(timeout)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.vec!r}>"

    def _begin(self, options: Any) -> None:
        """Remember which environments were reset."""
        mask = options.get("reset_mask") if isinstance(options, Mapping) else None
        self._chosen = None if mask is None else np.array(mask, np.bool_)
        self._begun |= True if self._chosen is None else self._chosen

    def _rows(self) -> Rows:
        rows = Rows(self.unwrapped, self._chosen, self._begun)
        self._begun[rows.envs] = False
        return rows


def matrix(vec: Any, values: Any) -> Array:
    """(rows, A) of the layout's form of rewards or flags; a copy unless it is one array."""
    spec: VecSpec = vec.unwrapped._spec
    if vec.layout == "stacked":
        if len(spec.groups) == 1 and spec.groups[0].whole:
            whole: Array = values[spec.groups[0].name]
            return whole
        first = values[spec.groups[0].name]
        out: Array = np.zeros((len(first), len(spec.agents)), first.dtype)
        for group in spec.groups:
            out[:, group.slots] = values[group.name]
        return out
    return np.stack([values[agent] for agent in spec.agents], 1)


def unmatrix(vec: Any, values: Array) -> Any:
    """The layout's form of (rows, A)."""
    spec: VecSpec = vec.unwrapped._spec
    if vec.layout == "stacked":
        return {
            group.name: values if group.whole else values[:, group.slots] for group in spec.groups
        }
    return {agent: values[:, slot] for slot, agent in enumerate(spec.agents)}
