"""What may be asked of a vector, and when; and the errors for what may not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ActionError, ClosedError, ConfigError, ForkedError, StateError
from ..types import Array, BoolArray, whole
from .contract import VecSpec
from .leaves import OBJECT, Leaf

__all__ = ["Legal", "fitted", "missing"]


class Legal:
    """Checks of arguments and states; the base of every layout.

    Attributes:
        _spec: of the vector, with `_count` environments.
        _status: "new", "ready", "failed" or "closed".
        _begun: (N,) bool, who was ever reset.
        _busy: (N,) bool, who was sent and not yet received; `_flying` of them.
        _pid: the process that made the vector.
    """

    _spec: VecSpec
    _backend: Any
    _count: int
    _status: str
    _begun: BoolArray
    _busy: BoolArray
    _flying: int
    _pid: int
    env_ids: Array

    @property
    def _name(self) -> str:
        return self._spec.name

    def _must_be_open(self, what: str) -> None:
        if self._status == "closed":
            raise ClosedError(f"{self._name}.{what}: the vector is closed; make a new one")
        if self._pid != os.getpid():
            raise ForkedError(
                f"{self._name}.{what}: this process was forked after the vector was made, and "
                "its copy can't be used; make one in this process"
            )

    def _must_be_native(self, what: str) -> None:
        if self._spec.kind != "native":
            raise StateError(
                f"{self._name}.{what}: only native worlds can be saved; a wrapped environment "
                "keeps its state to itself"
            )

    def _must_be_name(self, name: Any) -> None:
        if not isinstance(name, str) and not callable(name):
            raise ConfigError(
                f"{self._name}: expected the name of a method or attribute, got {name!r}"
            )

    def _must_rest(self, what: str) -> None:
        if self._flying:
            raise StateError(
                f"{self._name}.{what}: environments {np.flatnonzero(self._busy).tolist()} are "
                "stepping since send; recv their results first"
            )

    def _refuse(self, what: str) -> None:
        self._must_be_open(what)
        if self._status == "failed":
            raise StateError(
                f"{self._name}.{what}: an earlier call failed; only reset and close help now"
            )
        never = np.flatnonzero(~self._begun).tolist()
        raise StateError(
            f"{self._name}.{what} before reset: environments {never} have not been reset"
        )

    def _refuse_ended(self, envs: Array) -> None:
        raise StateError(
            f"{self._name}: environment {int(envs[0])} has ended, and autoreset is disabled; "
            "reset it with options={'reset_mask': mask} first"
        )

    def _checked_seed(self, seed: Any) -> list[int | None]:
        count = self._count
        if seed is None:
            return [None] * count
        if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim == 1):
            if len(seed) != count:
                raise ConfigError(
                    f"{self._name}.reset(seed=…): expected one seed for each of {count} "
                    f"environments, got {len(seed)}"
                )
            return [None if one is None else self._one_seed(one) for one in seed]
        first = self._one_seed(seed)
        return [first + env for env in range(count)]

    def _one_seed(self, seed: Any) -> int:
        value = whole(seed)
        if value is None or value < 0:
            raise ConfigError(
                f"{self._name}.reset(seed=…): expected a whole number from 0, a list of one for "
                f"each environment, or None, got {seed!r}"
            )
        return value

    def _checked_options(self, options: Any) -> tuple[BoolArray | None, list[Any]]:
        """Which environments are reset, and the options of each; arguments are never changed."""
        if options is None:
            return None, [None] * self._count
        if not isinstance(options, Mapping):
            raise ConfigError(
                f"{self._name}.reset(options=…): expected a dict or None, got "
                f"{type(options).__name__}"
            )
        rest: dict[str, Any] | None = {k: v for k, v in options.items() if k != "reset_mask"}
        if "reset_mask" not in options:
            return None, [dict(rest or {}) for _ in range(self._count)]
        chosen = self._checked_mask(options["reset_mask"])
        return chosen, [dict(rest) if rest else None for _ in range(self._count)]

    def _checked_mask(self, mask: Any) -> BoolArray:
        array: Array = np.asarray(mask)
        if array.shape != (self._count,) or array.dtype != np.bool_:
            raise ConfigError(
                f"{self._name}.reset: options['reset_mask'] must be bool of shape "
                f"({self._count},), got {array.dtype} of shape {array.shape}"
            )
        if not array.any():
            raise ConfigError(f"{self._name}.reset: options['reset_mask'] chooses no environment")
        chosen: BoolArray = array.copy()
        return chosen

    def _checked_envs(self, envs: Any) -> Sequence[int]:
        if envs is None:
            return range(self._count)
        if isinstance(envs, (int, np.integer)):
            envs = [envs]
        if not isinstance(envs, Iterable):
            raise ConfigError(f"{self._name}: expected indices of environments, got {envs!r}")
        out = []
        for env in envs:
            index = whole(env)
            if index is None or not 0 <= index < self._count:
                raise ConfigError(
                    f"{self._name}: expected indices of environments from 0 to "
                    f"{self._count - 1}, got {env!r}"
                )
            out.append(index)
        return out

    def _checked_ids(self, ids: Any) -> Array:
        if ids is None:
            return np.asarray(self.env_ids)
        envs = np.array(self._checked_envs(ids), np.int64)
        if len(set(envs.tolist())) != len(envs):
            raise ConfigError(f"{self._name}.send: env_ids names an environment twice: {ids!r}")
        return envs


def missing(name: str, env: int, agent: str, why: str = "no action came") -> ActionError:
    """The error for a live agent that was given nothing."""
    return ActionError(
        f"{name}: environment {env}, agent {agent!r}: {why}; every live agent needs an action "
        "(vec.live tells who that is)",
        world=env, agent=agent,
    )  # fmt: skip


def fitted(leaf: Leaf, value: Any, where: str, env: int, agent: str) -> Array:
    """An action of the leaf's shape and of a dtype that casts to its own within its kind.

    Raises:
        ActionError: it is none; the message begins with `where`.
    """
    try:
        array: Array = np.asarray(value)
    except Exception as error:
        raise ActionError(
            f"{where}: the action is no array: {error}", world=env, agent=agent
        ) from None
    if array.shape != leaf.shape and array.size == 1 and leaf.shape in ((), (1,)):
        array = array.reshape(leaf.shape)
    if array.shape != leaf.shape:
        raise ActionError(
            f"{where}: expected an action of shape {leaf.shape}, got {array.shape}",
            world=env, agent=agent,
        )  # fmt: skip
    if leaf.dtype != OBJECT and not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
        raise ActionError(
            f"{where}: expected an action of dtype {leaf.dtype}, or one that casts to it within "
            f"its kind, got {array.dtype}",
            world=env, agent=agent,
        )  # fmt: skip
    return array
