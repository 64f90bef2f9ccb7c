"""Worlds of one engine, and the episodes that they are in: who lives, until when, how it began."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import Engine
from ..errors import ConfigError
from ..types import Array, BoolArray
from .contract import OBSERVED, VecSpec
from .frames import Frame
from .leaves import filler
from .native_actions import Intake, indices
from .native_setup import Setup
from .world import NEVER, World, limit_of

__all__ = ["Asked", "Episodes"]

_NOBODY: Array = np.zeros(0, np.int64)
Asked = Mapping[int, tuple[int | None, int]]
"""World -> (seed, limit) of those that the caller resets."""


class Episodes:
    """N worlds of a model, with the episodes that they are in.

    Args:
        setup: the model and its options.
        spec: of the vector.
        engine: with N worlds.

    Attributes:
        live: (N, A) bool, who must be given an action next.
        ended: (N,) bool, nobody is live: to be reset.
        steps: (N,) int64, of the present episode.
        limit: (N,) int64, at which it is truncated.
        horizon: (N,) int64, the limit of episodes whose options ask for no other.
        manual: (N,) int64, the limit of the last episode that the caller began.
        episode: (N,) int64, how many were begun before this one; -1 before the first.
        intake: of actions.
    """

    def __init__(self, setup: Setup, spec: VecSpec, engine: Engine) -> None:
        self.setup, self.spec, self.engine = setup, spec, engine
        n, a = self._shape = spec.num_envs, len(spec.agents)
        self._slots = [indices(group.slots) for group in spec.groups]
        self.intake = Intake(spec, engine, self._slots, setup.action_space)
        self._filler = filler(spec.groups[0].observation.leaves[0])
        horizon = NEVER if setup.horizon is None else setup.horizon
        self.live: BoolArray = np.zeros((n, a), np.bool_)
        self.ended: BoolArray = np.ones(n, np.bool_)
        self.steps: Array = np.zeros(n, np.int64)
        self.limit: Array = np.full(n, NEVER)
        self.horizon: Array = np.full(n, horizon)
        self.manual: Array = np.full(n, horizon)
        self.episode: Array = np.full(n, -1)
        # What follows from `live`: everybody is; what a step in which nobody ends writes.
        self._full = False
        self._absent: Array = np.arange(n * a)
        self._usual_head: Array | None = None
        self._views: dict[int, World] = {}
        self._fixed: int | None = None
        if isinstance(spec.options, Mapping):
            unknown: dict[Any, None] = {}
            self._fixed = self.asked(spec.options, None, unknown)
            self.warn(unknown)

    # ---- the beginning of an episode

    def begin(self, worlds: Array, limits: Array, seeds: Sequence[int | None] | None) -> None:
        """Begin episodes.

        Args:
            worlds: which, ascending.
            limits: of each of these.
            seeds: (N,); None: all go on.
        """
        chosen: BoolArray | None = None
        if len(worlds) < self._shape[0]:
            chosen = np.zeros(self._shape[0], np.bool_)
            chosen[worlds] = True
        self.intake.restore()
        self.engine.reset(seed=seeds, mask=chosen)
        self.steps[worlds] = 0
        self.limit[worlds] = limits
        self.episode[worlds] += 1
        self.live[worlds] = self.engine.alive[worlds]
        for env, view in self._views.items():
            if chosen is None or chosen[env]:
                view.begin()

    def _wanted(self, worlds: Array, asked: Asked) -> tuple[Array, list[int | None] | None]:
        """Limits and seeds of worlds that are reset by themselves, or as the caller asked."""
        options = self.spec.options
        seeds: list[int | None] | None = None
        if options is None:
            limits = self.horizon[worlds]
        elif isinstance(options, str):  # "last"
            limits = self.manual[worlds]
        elif self._fixed is not None:
            limits = np.full(len(worlds), self._fixed)
        else:
            limits = self.horizon[worlds]
            unknown: dict[Any, None] = {}
            for k, env in enumerate(worlds.tolist()):
                if env not in asked and callable(options):
                    given = options(env, int(self.episode[env]) + 1)
                    limits[k] = self.asked(given, env, unknown)
            self.warn(unknown)
        if asked:
            seeds = [None] * self._shape[0]
            for env, (seed, limit) in asked.items():
                seeds[env], limits[np.searchsorted(worlds, env)] = seed, limit
        return limits, seeds

    def settle(self, worlds: Array) -> None:
        """After `live` has changed in some worlds."""
        self.ended[worlds] = ~self.live[worlds].any(axis=1)
        self._full = bool(self.live.all())
        self._usual_head = None
        self._absent = _NOBODY if self._full else np.flatnonzero(~self.live)
        self.intake.keep(self._absent)

    def show(self, frame: Frame, these: BoolArray) -> None:
        """Write what a reset shows; rows of other worlds than `these` keep what they saw."""
        frame.flags[:] = frame.acted[:] = frame.over[:] = frame.was_reset[:] = False
        frame.reward[:], frame.turn[:], frame.live[:] = 0.0, -1, self.live
        worlds = np.flatnonzero(these)
        live = self.live[worlds]
        frame.seen[worlds] = live * np.uint8(OBSERVED)
        for slots, leaves in zip(self._slots, frame.obs, strict=True):
            block = self.engine.observation[worlds][:, slots]
            block[~live[:, slots]] = self._filler
            leaves[0][worlds] = block

    # ---- options

    def asked(self, options: Any, env: int | None, unknown: dict[Any, None]) -> int:
        """The limit that options ask for; what is not known is added to `unknown`.

        Raises:
            ConfigError: they are no dict, or the horizon is no number of steps.
        """
        name = self.spec.name if env is None else f"{self.spec.name}: environment {env}"
        if options is None:
            options = {}
        if not isinstance(options, Mapping):
            raise ConfigError(f"{name}: options must be a dict, got {type(options).__name__}")
        unknown.update((key, None) for key in options if key != "horizon")
        if "horizon" not in options:
            setup = NEVER if self.setup.horizon is None else self.setup.horizon
            return setup if env is None else int(self.horizon[env])
        return limit_of(f'{name}: options["horizon"]', options["horizon"])

    def warn(self, unknown: Mapping[Any, None]) -> None:
        """Say which options do nothing."""
        if unknown:
            warnings.warn(
                f"{self.spec.name}: unknown reset options {list(unknown)!r} do nothing (known: "
                "'horizon')",
                stacklevel=4,
            )

    # ---- everything else

    def state(self, worlds: Any = slice(None)) -> Array:
        """(worlds, value) float32, each world for a central critic, column after column."""
        columns = [self.engine.columns[name][worlds] for name in self.setup.state_columns]
        parts = [np.asarray(c, np.float32).reshape(len(c), -1) for c in columns]
        out: Array = np.concatenate(parts, axis=1)
        return out

    def world(self, env: int) -> World:
        """A world as an environment of its own; always the same object."""
        if env not in self._views:
            self._views[env] = World(self, env)
        return self._views[env]

    def close(self) -> None:
        """Free the engine, and close the windows."""
        for view in self._views.values():
            view.close()
        self.engine.close()
