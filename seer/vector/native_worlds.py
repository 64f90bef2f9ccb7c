"""Worlds of one engine: whose episode is where, and what a step writes into a frame.

No loop goes over worlds or agents on the way of a step. A step in which nobody ends copies the
engine's columns; where somebody ends, or a world begins anew, only the rows concerned are looked
at (`_events`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import Engine
from ..errors import ConfigError, StateError
from ..types import Array, BoolArray
from .contract import FLAGGED, OBSERVED, REWARDED, Actions, VecSpec
from .frames import Frame
from .leaves import filler
from .native_actions import Intake, indices, worlds_mask
from .native_setup import Setup
from .world import NEVER, World, limit_of

__all__ = ["Worlds"]

_TOLD = OBSERVED | REWARDED | FLAGGED


class Worlds:
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
    """

    def __init__(self, setup: Setup, spec: VecSpec, engine: Engine) -> None:
        self.setup, self.spec, self.engine = setup, spec, engine
        n, a = self._shape = spec.num_envs, len(spec.agents)
        # Views of the engine's columns; a model may declare neither of the first two.
        role = setup.model.spec.role
        self._reward = engine.reward if role("reward") else np.zeros((n, a))
        self._terminated = engine.terminated if role("terminated") else np.zeros((n, a), np.bool_)
        self._alive, self._all_alive = engine.alive, engine._latest[0].view(np.bool_)
        self._slots = [indices(group.slots) for group in spec.groups]
        self._intake = Intake(spec, engine, self._slots, setup.action_space)
        self._filler = filler(spec.groups[0].observation.leaves[0])
        # The core copies observations itself where they go into one array as they are.
        whole = len(spec.groups) == 1 and engine.compiled
        self._mirror = engine._core.mirror if whole else None
        observation = role("observation")
        assert observation is not None  # an environment has one
        self._mirrored = setup.model.spec.column_index(observation.name)
        horizon = NEVER if setup.horizon is None else setup.horizon
        self.live: BoolArray = np.zeros((n, a), np.bool_)
        self.ended: BoolArray = np.ones(n, np.bool_)
        self.steps: Array = np.zeros(n, np.int64)
        self.limit: Array = np.full(n, NEVER)
        self.horizon: Array = np.full(n, horizon)
        self.manual: Array = np.full(n, horizon)
        self.episode: Array = np.full(n, -1)
        # What follows from `live`: everybody is; what a step writes in which nobody ends.
        self._full = False
        self._usual_head: Array | None = None
        self._absent: Array = np.arange(0)
        self._over: BoolArray = np.zeros((n, a), np.bool_)  # room
        self._views: dict[int, World] = {}
        self._fixed: int | None = None
        if isinstance(spec.options, Mapping):
            unknown: dict[Any, None] = {}
            self._fixed = self.asked(spec.options, None, unknown)
            self.warn(unknown)

    def take(self, actions: Actions, envs: Array | None) -> None:
        """Hand actions over to the engine, before anything moves.

        Args:
            actions: values for who is not live are ignored.
            envs: of which worlds; None: all.

        Raises:
            ActionError: names the world and the agent.
            StateError: a world has ended and resets are not automatic.
        """
        rows: Any = slice(None) if envs is None else envs
        if self.spec.mode == "disabled" and self.ended[rows].any():
            at = int(np.argmax(self.ended[rows]))
            raise StateError(
                f"{self.spec.name}: environment {at if envs is None else int(envs[at])} has "
                "ended, and autoreset is disabled; reset it first"
            )
        self._intake.take(actions, envs, self.live, self._full)

    # ---- a step

    def advance(
        self, frame: Frame, envs: Array | None, asked: Mapping[int, tuple[int | None, int]]
    ) -> None:
        """Step worlds, reset those that ended or were `asked` to, and write their rows.

        Args:
            frame: has a row for each of them.
            envs: (rows,) ascending; None: all.
            asked: world -> (seed, horizon) of those that the caller resets.
        """
        mirror = self._mirror if envs is None else None
        if mirror is None:
            self._advance(frame, envs, asked)
            return
        mirror(self._mirrored, frame.obs[0][0])
        try:
            self._advance(frame, envs, asked)
        finally:
            mirror(self._mirrored, None)

    def _advance(
        self, frame: Frame, envs: Array | None, asked: Mapping[int, tuple[int | None, int]]
    ) -> None:
        rows: Any = slice(None) if envs is None else envs
        begins = self.ended[rows].copy()
        for env in asked:
            begins[np.searchsorted(rows, env)] = True
        some = bool(begins.any())
        if not some:
            self.engine.step(mask=worlds_mask(self._shape[0], envs))
        elif not begins.all():
            self.engine.step(mask=worlds_mask(self._shape[0], envs, begins))
        self.steps[rows] += 1
        cut = self.steps[rows] >= self.limit[rows]
        if some:
            cut &= ~begins
        ends = self._ends(envs)
        quiet = ends is None and not cut.any() and not some
        absent = self._head(frame, envs)
        np.copyto(frame.reward, self._reward[rows])
        if absent.size:
            frame.reward.reshape(-1)[absent] = 0.0
        if quiet:
            frame.usual = absent.size == 0
        else:
            absent = self._events(frame, envs, ends, cut, begins, asked)
        self._observe(frame, envs, absent)

    def _ends(self, envs: Array | None) -> Array | None:
        """Whose task has ended in this step, flat; None: nobody's."""
        if envs is not None:
            over = (self._terminated[envs] | ~self._alive[envs]) & self.live[envs]
        elif self._full and self._all_alive.all() and not self._terminated.any():
            return None
        else:
            over = self._over
            np.logical_not(self._alive, out=over)
            np.logical_or(over, self._terminated, out=over)
            np.logical_and(over, self.live, out=over)
        ended = np.flatnonzero(over)
        return ended if ended.size else None

    def _head(self, frame: Frame, envs: Array | None) -> Array:
        """Write what a step in which nobody ends has, but for numbers.

        Returns:
            Who is absent: indices in the rows laid end to end.
        """
        live = self.live if envs is None else self.live[envs]
        head = frame.root[: frame.layout.head]
        if envs is None and self._usual_head is not None:
            head[:] = self._usual_head
            return self._absent
        frame.flags[:] = False
        frame.lives[:] = live
        np.multiply(live, np.uint8(_TOLD), out=frame.seen)
        frame.over[:] = frame.was_reset[:] = False
        frame.turn[:] = -1
        absent: Array = np.flatnonzero(~live.reshape(-1))
        if envs is None:
            self._usual_head, self._absent = head.copy(), absent
        return absent

    def _events(
        self, frame: Frame, envs: Array | None, ends: Array | None, cut: BoolArray,
        begins: BoolArray, asked: Mapping[int, tuple[int | None, int]],
    ) -> Array:  # fmt: skip
        """Flags, infos, and the worlds that begin anew.

        Returns:
            Who has no observation: indices in the rows laid end to end.
        """
        acted, live, agents = frame.acted, frame.live, self._shape[1]
        touched = cut | begins
        if ends is not None:
            frame.terminated.reshape(-1)[ends] = True
            live.reshape(-1)[ends] = False
            touched[ends // agents] = True
            self._inform(frame, envs, ends)
        if cut.any():
            frame.truncated[cut] = live[cut]
            live[cut] = False
        who = np.flatnonzero(touched)
        frame.over[who] = acted[who].any(axis=1) & ~live[who].any(axis=1)
        seen = acted
        for done in (begins, frame.over if self.spec.mode == "same_step" else None):
            if done is None or not done.any():
                continue
            at = np.flatnonzero(done)
            worlds = at if envs is None else envs[at]
            if done is begins:
                frame.was_reset[at] = True
                for env in asked:
                    frame.was_reset[np.searchsorted(worlds if envs is None else envs, env)] = False
            else:
                self._keep_last(frame, at, worlds)
            self.begin(worlds, *self._wanted(worlds, asked if done is begins else {}))
            live[at] = self.live[worlds]
            frame.seen[at] &= REWARDED | FLAGGED
            frame.seen[at] |= live[at] * np.uint8(OBSERVED)
            seen = seen.copy() if seen is acted else seen
            seen[at] = live[at]
        rows: Any = slice(None) if envs is None else envs
        self.live[rows] = live
        self.settle(who if envs is None else envs[who])
        return np.flatnonzero(~seen.reshape(-1))

    def _inform(self, frame: Frame, envs: Array | None, ends: Array) -> None:
        """The last infos of those whose task has ended."""
        tell = self.setup.end_info
        if tell is None:
            return
        infos, names = frame.side.infos, self.spec.agents
        at, world = -1, None
        for k in ends.tolist():
            row, slot = divmod(k, self._shape[1])
            env = row if envs is None else int(envs[row])
            if env != at or world is None:
                at, world = env, World(self, env)
            info = tell(world, slot)
            if info:
                infos.setdefault(env, {})[names[slot]] = info

    def _keep_last(self, frame: Frame, at: Array, worlds: Array) -> None:
        """What episodes ended with, before their worlds are reset in the same step."""
        assert frame.final_obs is not None
        acted, side = frame.acted[at], frame.side
        for slots, leaves in zip(self._slots, frame.final_obs, strict=True):
            block = self.engine.observation[worlds][:, slots]
            block[~acted[:, slots]] = self._filler
            leaves[0][at] = block
        frame.final_seen[at] = frame.seen[at]
        states = self.state(worlds)
        for env, state in zip(worlds.tolist(), states, strict=True):
            side.final_state[env] = state.copy()
            if env in side.infos:
                side.final_infos[env] = side.infos.pop(env)

    def _observe(self, frame: Frame, envs: Array | None, absent: Array) -> None:
        """Copy observations, and put fillers where nobody is."""
        if envs is not None or self._mirror is None:
            observation = self.engine.observation
            if envs is not None:
                observation = observation[envs]
            for slots, leaves in zip(self._slots, frame.obs, strict=True):
                np.copyto(leaves[0], observation[:, slots])
        if not absent.size:
            return
        if len(self._slots) == 1:
            leaf = frame.obs[0][0]
            leaf.reshape(-1, *leaf.shape[2:])[absent] = self._filler
            return
        nobody = np.zeros(frame.acted.shape, np.bool_)
        nobody.reshape(-1)[absent] = True
        for slots, leaves in zip(self._slots, frame.obs, strict=True):
            leaves[0][nobody[:, slots]] = self._filler

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
        self.engine.reset(seed=seeds, mask=chosen)
        self.steps[worlds] = 0
        self.limit[worlds] = limits
        self.episode[worlds] += 1
        self.live[worlds] = self._alive[worlds]
        for env, view in self._views.items():
            if chosen is None or chosen[env]:
                view.begin()

    def _wanted(
        self, worlds: Array, asked: Mapping[int, tuple[int | None, int]]
    ) -> tuple[Array, list[int | None] | None]:
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
