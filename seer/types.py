"""Small public types: array aliases and the pool configuration."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError

__all__ = [
    "MAX_THREADS",
    "Array",
    "Axis",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "PoolConfig",
]

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

Axis: TypeAlias = Literal["worlds", "lanes"]

MAX_THREADS = 64
"""The most threads a pool can have (SEER_MAX_THREADS of the core)."""

_AXES = ("worlds", "lanes")
_MAX_SPIN_US = 1_000_000.0


def whole(value: object) -> int | None:
    """A whole number as an int; None for all else, bools and arrays with axes among it."""
    if isinstance(value, bool | np.bool_) or np.ma.is_masked(value):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def kind_of(value: object) -> str:
    """What came, for a message: its type, with shape and dtype where it has them."""
    if isinstance(value, bool | np.bool_):
        return "a bool"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__


def flag(what: str, value: object) -> bool:
    """True or False, or a ConfigError that says what came; ``"no"`` is neither."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(f"{what}: expected True or False, got {value!r}")
    return bool(value)


def _whole(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int in [low, high], or a ConfigError that says what came."""
    number = whole(value)
    if number is None:
        raise ConfigError(
            f"PoolConfig({name}={value!r}): {name} must be a whole number, got {kind_of(value)}"
        )
    if number < low:
        raise ConfigError(
            f"PoolConfig({name}={number}): {name} must be at least {low}, got {number}"
        )
    if number > high:
        raise ConfigError(
            f"PoolConfig({name}={number}): {name} must be at most {high}, got {number}"
        )
    return number


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(f"PoolConfig({name}={value!r}): {name} must be True or False")
    return bool(value)


@dataclass(frozen=True)
class PoolConfig:
    """How an engine shares its work among threads. Never changes results.

    Args:
        threads: how many threads work, the calling one included, 1 to 64.
        axis: what they split: ``"worlds"`` (each thread runs whole worlds) or
            ``"lanes"`` (all threads work on the entities of one world).
        grain: worlds that a thread claims at once, or lanes in a shard (rounded up to a
            power of two); 0 lets the engine choose.
        spin_us: how long an idle thread spins before it sleeps, us.
        pin: bind thread k to the k-th usable CPU.
        share: let all threads take part in every stretch of work, however small. For
            tests: the default leaves what is too little for two to the caller alone.
        shuffle: not 0: work is claimed in an order drawn from this number. For tests.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """

    threads: int
    axis: Axis = "worlds"
    grain: int = 0
    spin_us: float = 20.0
    pin: bool = False
    share: bool = False
    shuffle: int = 0

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("threads", _whole("threads", self.threads, 1, MAX_THREADS))
        if not isinstance(self.axis, str) or self.axis not in _AXES:
            raise ConfigError(f"PoolConfig(axis={self.axis!r}): axis must be 'worlds' or 'lanes'")
        put("grain", _whole("grain", self.grain, 0, 2**31 - 1))
        put("spin_us", self._checked_spin())
        put("pin", _flag("pin", self.pin))
        put("share", _flag("share", self.share))
        put("shuffle", _whole("shuffle", self.shuffle, 0, 2**64 - 1))

    def _checked_spin(self) -> float:
        given: object = self.spin_us
        if isinstance(given, bool) or not isinstance(given, int | float | np.number):
            raise ConfigError(
                f"PoolConfig(spin_us={given!r}): spin_us must be a number of microseconds, "
                f"got {type(given).__name__}"
            )
        spin = float(given)
        if not math.isfinite(spin) or not 0.0 <= spin <= _MAX_SPIN_US:
            raise ConfigError(
                f"PoolConfig(spin_us={given!r}): spin_us must lie in [0, {_MAX_SPIN_US:.0f}] us"
            )
        return spin

    def __str__(self) -> str:
        grain = self.grain or "auto"
        pinned = ", pinned" if self.pin else ""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{threads} over {self.axis}, grain {grain}, spin {self.spin_us:g} us{pinned}"
