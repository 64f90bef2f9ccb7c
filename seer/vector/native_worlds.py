"""A step of native worlds, and what it writes into a frame.

No loop goes over worlds or agents. A step in which nobody ends copies the engine's columns; where
somebody ends, or a world begins anew, only the rows concerned are looked at (`_events`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import Engine
from ..errors import StateError
from ..types import Array, BoolArray
from .contract import FLAGGED, OBSERVED, REWARDED, VecSpec
from .frames import Frame
from .native_actions import worlds_mask
from .native_episodes import Asked, Episodes
from .native_setup import Setup
from .world import World

__all__ = ["Worlds"]

_NOBODY: Array = np.zeros(0, np.int64)
_NONE: BoolArray = np.zeros(1, np.bool_)
_FEW = 16  # times as many agents live
_TOLD = OBSERVED | REWARDED | FLAGGED


class Worlds(Episodes):
    """Worlds that are stepped together. Arguments and attributes as of `Episodes`."""

    def __init__(self, setup: Setup, spec: VecSpec, engine: Engine) -> None:
        super().__init__(setup, spec, engine)
        shape = self._shape
        # Views of the engine's columns; a model may declare neither of the first two.
        role = setup.model.spec.role
        self._reward = engine.reward if role("reward") else np.zeros(shape)
        self._terminated = engine.terminated if role("terminated") else np.zeros(shape, np.bool_)
        self._alive, self._all_alive = engine.alive, engine._latest[0].view(np.bool_)
        # The core copies observations itself where they go into one array as they are.
        whole = len(spec.groups) == 1 and engine.compiled
        self._mirror = engine._core.mirror if whole else None
        observation = role("observation")
        assert observation is not None  # an environment has one
        self._mirrored = setup.model.spec.column_index(observation.name)
        self._into: Array | None = None  # the frame's observations during a step
        self._row = f"V{shape[1]}"  # the bytes of a world's agents as one item
        self._alive_rows = self._alive.view(self._row)
        self._over: BoolArray = np.zeros(shape, np.bool_)  # room

    def take(self, envs: Array | None) -> None:
        """Hand the actions over to the engine, before anything moves.

        Args:
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
        self.intake.take(envs, self.live, self._full)

    # ---- a step

    def advance(self, frame: Frame, envs: Array | None, asked: Asked, lend: bool = False) -> bool:
        """Step worlds, reset those that ended or were `asked` to, and write their rows.

        Args:
            frame: has a row for each of them.
            envs: (rows,) ascending; None: all.
            asked: world -> (seed, horizon) of those that the caller resets.
            lend: the engine's column may stand for the frame's observations.

        Returns:
            Whether it has to: the frame has none.
        """
        # To find out whether the column has fillers costs more than a copy where many are dead.
        lend = lend and self._absent.size * _FEW < self.live.size
        if self._mirror is None or lend or envs is not None:
            absent, _ = self._advance(frame, envs, asked)
            if lend and self._as_filled(absent):
                return True
            self._copy(frame, envs)
        else:
            self._into = frame.obs[0][0]
            present = None if self._full else self.live
            self._mirror(self._mirrored, self._into, present, self._filler)
            try:
                _, absent = self._advance(frame, envs, asked)
            finally:
                self._mirror(self._mirrored, None)
                self._into = None
        if absent.size:
            self._fill(frame, absent)
        return False

    def _advance(self, frame: Frame, envs: Array | None, asked: Asked) -> tuple[Array, Array]:
        """All but the observations.

        Returns:
            Who has none: indices in the rows laid end to end; and those of them whose world has
            begun anew.
        """
        rows: Any = slice(None) if envs is None else envs
        begins = self.ended[rows].copy()
        for env in asked:
            begins[np.searchsorted(rows, env)] = True
        some = bool(begins.any())
        if not some:
            self.engine._step_as_checked(worlds_mask(self._shape[0], envs))
        elif not begins.all():
            self.engine._step_as_checked(worlds_mask(self._shape[0], envs, begins))
        self.steps[rows] += 1
        cut = self.steps[rows] >= self.limit[rows]
        if some:
            cut &= ~begins
        ends = self._ends(envs)
        quiet = ends is None and not some and not cut.any()
        absent = self._head(frame, envs)
        np.copyto(frame.reward, self._reward[rows])
        if absent.size:
            frame.reward.reshape(-1)[absent] = 0.0
        if quiet:
            frame.usual = absent.size == 0
            return absent, _NOBODY
        return self._events(frame, envs, ends, cut, begins, asked, absent)

    def _ends(self, envs: Array | None) -> Array | None:
        """Whose task has ended in this step, flat; None: nobody's."""
        if envs is not None:
            over = (self._terminated[envs] | ~self._alive[envs]) & self.live[envs]
        elif self._full and self._all_alive.all() and not self._terminated.any():
            return None
        else:
            over = self._over
            over.view(self._row)[:] = self._alive_rows
            np.logical_not(over, out=over)
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
        if envs is not None:
            out: Array = np.flatnonzero(~live)
            return out
        self._usual_head = head.copy()
        return self._absent

    def _events(
        self, frame: Frame, envs: Array | None, ends: Array | None, cut: BoolArray,
        begins: BoolArray, asked: Asked, absent: Array,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Flags, infos, and the worlds that begin anew. Returns as `_advance`."""
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
        late = _NOBODY
        first, last = begins, frame.over if self.spec.mode == "same_step" else _NONE
        if first.any() or last.any():
            seen = acted.copy()
            for done in (first, last):
                if done.any():
                    self._begin_rows(frame, envs, np.flatnonzero(done), asked, done is last)
                    seen[done] = live[done]
            absent = np.flatnonzero(~seen)
            late = absent[(first | last)[absent // agents]]
        rows: Any = slice(None) if envs is None else envs
        self.live[rows] = live
        self.settle(who if envs is None else envs[who])
        return absent, late

    def _begin_rows(
        self, frame: Frame, envs: Array | None, at: Array, asked: Asked, ended_now: bool
    ) -> None:
        """New episodes in these rows of a frame: of worlds that ended now or were to be reset."""
        worlds = at if envs is None else envs[at]
        if ended_now:
            self._keep_last(frame, at, worlds)
            asked = {}
        else:
            frame.was_reset[at] = True
            for env in asked:
                frame.was_reset[np.searchsorted(worlds if envs is None else envs, env)] = False
        if self._into is not None:  # who lived before does not matter any more
            assert self._mirror is not None
            self._mirror(self._mirrored, self._into)
        self.begin(worlds, *self._wanted(worlds, asked))
        frame.live[at] = self.live[worlds]
        frame.seen[at] &= REWARDED | FLAGGED
        frame.seen[at] |= frame.live[at] * np.uint8(OBSERVED)

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

    def _copy(self, frame: Frame, envs: Array | None) -> None:
        """The engine's observations into a frame."""
        observation = self.engine.observation
        if envs is not None:
            observation = observation[envs]
        for slots, leaves in zip(self._slots, frame.obs, strict=True):
            np.copyto(leaves[0], observation[:, slots])

    def _fill(self, frame: Frame, absent: Array) -> None:
        """Fillers where nobody is."""
        if len(self._slots) == 1:
            leaf = frame.obs[0][0]
            leaf.reshape(-1, *leaf.shape[2:])[absent] = self._filler
            return
        nobody = np.zeros(frame.acted.shape, np.bool_)
        nobody.reshape(-1)[absent] = True
        for slots, leaves in zip(self._slots, frame.obs, strict=True):
            leaves[0][nobody[:, slots]] = self._filler

    def _as_filled(self, absent: Array) -> bool:
        """Whether the engine itself has fillers where nobody is, and all agents in one array."""
        if len(self._slots) > 1:
            return False
        column = self.engine.observation
        return bool((column.reshape(-1, *column.shape[2:])[absent] == self._filler).all())
