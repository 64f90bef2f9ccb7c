"""Seeds and episode numbers of an engine's worlds."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from .errors import ConfigError
from .types import Array, BoolArray, kind_of, whole

_MAX_SEED = 2**64 - 1


class Seeds:
    """Which seed each world has, and the how manieth episode since it was given.

    Args:
        worlds: how many.
        owner: name for messages.
    """

    def __init__(self, worlds: int, owner: str) -> None:
        self._worlds, self._owner = worlds, owner
        self.seeds: Array = np.zeros(worlds, np.uint64)
        self.episodes: Array = np.zeros(worlds, np.uint64)
        self.given: BoolArray = np.zeros(worlds, bool)

    def begin_episode(self, seed: Any, chosen: BoolArray) -> None:
        """The seeds of a reset.

        Args:
            seed: of `Engine.reset`.
            chosen: (worlds,) bool, the worlds that are reset.

        Raises:
            ConfigError: a seed is not a whole number from 0 to 2**64 - 1.
        """
        wanted = self._wanted(seed)
        fresh: int | None = None
        for world in np.flatnonzero(chosen):
            value = wanted[world]
            if value is None and self.given[world]:
                self.episodes[world] += np.uint64(1)
                continue
            if value is None:
                fresh = secrets.randbits(62) if fresh is None else fresh
                value = fresh + int(world)
            self.seeds[world], self.episodes[world] = value, 0
            self.given[world] = True

    def _wanted(self, seed: Any) -> list[int | None]:
        """The seed that was asked for of each world; None: go on."""
        if seed is None:
            return [None] * self._worlds
        if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim == 1):
            if len(seed) != self._worlds:
                raise ConfigError(
                    f"{self._owner}.reset(seed=...): expected one seed for each of {self._worlds} "
                    f"worlds, got {len(seed)}"
                )
            return [None if one is None else self._whole(one, 0) for one in seed]
        first = self._whole(seed, self._worlds - 1)
        return [first + world for world in range(self._worlds)]

    def _whole(self, seed: Any, above: int) -> int:
        what = f"{self._owner}.reset(seed={seed!r})"
        value = whole(seed)
        if value is None:
            raise ConfigError(
                f"{what}: expected a whole number, a sequence of them or None, got {kind_of(seed)}"
            )
        if not 0 <= value <= _MAX_SEED - above:
            raise ConfigError(f"{what}: expected 0 to 2**64 - {above + 1}, got {value}")
        return value
