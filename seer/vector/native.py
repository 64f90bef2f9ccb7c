"""The backend of native worlds: one engine, stepped as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import Engine
from ..errors import ConfigError, SnapshotError
from ..types import Array, BoolArray
from .contract import Mode
from .frames import Frame, FrameLayout, FrameRing
from .native_episodes import Asked
from .native_setup import choose_pool, native_spec, take_apart
from .native_worlds import Worlds

__all__ = ["Native", "native_backend"]

_SAVED = ("live", "steps", "limit", "horizon", "manual", "episode")


def native_backend(env: Any, arguments: Any) -> Native:
    """Native worlds as `seer.make_vec` was asked for them.

    Args:
        env: an id, a model or its class, or ``"module:Model"``.
        arguments: `arguments.Arguments`.
    """
    return Native(
        env,
        arguments.num_envs or 1,
        mode=arguments.autoreset,
        autoreset_options=arguments.autoreset_options,
        pool=arguments.pool,
        copy=arguments.copy,
        render_mode=arguments.render_mode,
        groups="all" if arguments.layout == "flat" else arguments.groups,
        kwargs=arguments.env_kwargs,
    )


class Native:
    """N worlds of a model.

    Args:
        env: as `seer.make` takes it.
        num_envs: N.
        mode: of automatic resets.
        autoreset_options: None, "last", a dict, or a callable (world, episode) -> dict.
        pool: None or "auto", or a `seer.PoolConfig`.
        copy: False: the frames are read-only, and valid until the next call.
        render_mode: None, "rgb_array", or with one world "human".
        groups: None: the teams that the model declares; else as `group_agents` takes them.
        kwargs: for `seer.make`.

    Raises:
        UnknownIdError: no environment has this id.
        ConfigError: an argument is not legal.

    Attributes:
        spec: of the vector.
        actions: what the next step gives to the agents; written by the caller.
        worlds: the worlds and the episodes that they are in.
        engine: has the worlds.
        pool: the threads; has ``explain()``.
        failed: a call failed half-way; only `reset` of all and `close` help.
    """

    def __init__(
        self, env: Any, num_envs: int = 1, *, mode: Mode = "next_step",
        autoreset_options: Any = None, pool: Any = None, copy: bool = True,
        render_mode: str | None = None, groups: Any = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        setup = take_apart(env, kwargs or {}, render_mode)
        if setup.render_mode == "human" and num_envs > 1:
            raise ConfigError(
                f"{setup.name}: render_mode='human' shows one world, not {num_envs}; use "
                "'rgb_array', or backend='serial' for a window each"
            )
        self.spec = spec = native_spec(setup, num_envs, mode, autoreset_options, groups)
        self.pool = choose_pool(
            setup.pool if pool is None else pool, num_envs, setup.model.spec.entities
        )
        self.engine = Engine(
            setup.model, num_envs, self.pool.config, compiled=setup.compiled,
            strict_actions=setup.strict_actions,
        )  # fmt: skip
        self.worlds = Worlds(setup, spec, self.engine)
        self.actions = self.worlds.intake.actions
        self.failed = False
        self._shown = setup.render_mode == "human"
        self._copy = copy
        self._ring = FrameRing(FrameLayout(spec), size=3 if copy else 2, copy=copy)
        # Without copies the engine's own column is shown, where it has fillers in it as well.
        self._lent = (
            None if copy or len(spec.groups) > 1 else [[_readonly(self.engine.observation)]]
        )
        self._own: dict[int, list[list[Any]]] = {}
        self._few: dict[int, FrameRing] = {}  # frames with fewer rows
        self._stale = True  # there are later results than the last of `_ring`
        self._checked: Any = False  # True, or the worlds whose actions were looked at
        self._waiting: deque[tuple[int, tuple[int | None, int] | None]] = deque()

    # ---- all at once

    def check(self, envs: Array | None = None) -> None:
        """Look at the actions and hand them to the engine, before anything moves.

        Args:
            envs: of which worlds; None: all.

        Raises:
            ActionError: names the world and the agent.
            StateError: a world has ended and resets are not automatic.
        """
        self.worlds.take(envs)
        self._checked = True if envs is None else envs

    def step(self) -> Frame:
        """Step, or automatically reset, every world.

        Raises:
            ActionError: an action is not legal, unless `check` has found out before.
            FaultError: the model did something illegal.
        """
        if self._checked is not True:
            self.check()
        self._checked = False
        frame = _next(self._ring)
        lent = self._run(frame, None, {})
        self._stale = lent
        return self._shown_frame(frame, lent)

    def _shown_frame(self, frame: Frame, lent: bool = False) -> Frame:
        shown = self._ring.shown(frame)
        if self._lent is not None:
            own = self._own.setdefault(id(shown), shown.obs)
            shown.obs = self._lent if lent else own
        return shown

    def check_reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> Array:
        """The horizons that a reset asks for, (N,); nothing is changed.

        Raises:
            ConfigError: a seed or a known option has a bad value.
        """
        for seed in seeds:
            if seed is not None and not 0 <= seed < 2**63:
                raise ConfigError(
                    f"{self.spec.name}: seeds must be whole numbers from 0 to 2**63 - 1, got {seed}"
                )
        limits: Array = self.worlds.horizon.copy()
        unknown: dict[Any, None] = {}
        for env, given in enumerate(options):
            if given and (chosen is None or chosen[env]):
                limits[env] = self.worlds.asked(given, env, unknown)
        self.worlds.warn(unknown)
        return limits

    def reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> Frame:
        """Begin episodes in the chosen worlds, all by default; the others stay.

        Raises:
            ConfigError: a seed or an option that is not legal.
            FaultError: the model did something illegal.
        """
        limits = self.check_reset(chosen, seeds, options)
        self._checked = False
        last, frame = self._ring.last, _next(self._ring)
        these = np.ones(self.spec.num_envs, np.bool_) if chosen is None else chosen
        at = np.flatnonzero(these)
        self.failed = True
        self.worlds.begin(at, limits[at], None if all(s is None for s in seeds) else seeds)
        self.worlds.manual[at] = limits[at]
        self.worlds.settle(at)
        if chosen is not None and not self._stale:
            frame.become(last)
            self.worlds.show(frame, chosen)
        else:
            self.worlds.show(frame, np.ones_like(these))
        self._stale = self.failed = False
        if self._shown:
            self.worlds.world(0).render()
        return self._shown_frame(frame)

    def _run(self, frame: Frame, envs: Array | None, asked: Asked) -> bool:
        self.failed = True
        lend = self._lent is not None and envs is None
        lent = self.worlds.advance(frame, envs, asked, lend)
        self.failed = False
        if self._shown:
            self.worlds.world(0).render()
        return lent

    # ---- some at a time

    def send(self, envs: Array) -> None:
        """Let worlds step; their actions are read before this returns.

        Raises:
            ActionError: an action is not legal, unless `check` has found out before.
        """
        if self._checked is not envs:
            self.check(envs)
        self._checked = False
        self._waiting.extend((env, None) for env in envs.tolist())

    def send_reset(
        self, chosen: BoolArray | None, seeds: Sequence[int | None], options: Sequence[Any]
    ) -> None:
        """Let worlds begin an episode.

        Raises:
            ConfigError: a seed or an option that is not legal.
        """
        limits = self.check_reset(chosen, seeds, options)
        for env in range(self.spec.num_envs):
            if chosen is None or chosen[env]:
                self.worlds.manual[env] = limits[env]
                self._waiting.append((env, (seeds[env], int(limits[env]))))

    def recv(self, count: int) -> tuple[Array, Frame]:
        """The results of those that wait longest, in ascending order."""
        ready = dict(self._waiting.popleft() for _ in range(count))
        envs = np.array(sorted(ready), np.int64)
        if count not in self._few:
            layout = FrameLayout(self.spec, count)
            self._few[count] = FrameRing(layout, size=3 if self._copy else 2, copy=self._copy)
        ring = self._few[count]
        frame = _next(ring)
        self._stale = True
        self._run(frame, envs, {env: given for env, given in ready.items() if given is not None})
        return envs, ring.shown(frame)

    def drain(self) -> None:
        """Forget what waits; worlds that have not stepped yet stay where they are."""
        self._waiting.clear()

    # ---- everything else

    @property
    def np_random_seed(self) -> tuple[int, ...]:
        """(N,) the seed of each world."""
        return tuple(self.engine.seeds.tolist())

    @property
    def clipped_actions(self) -> int:
        """How many agents' actions were clipped into their Box since the vector was made."""
        return self.engine.clipped

    def state(self) -> Array:
        """(N, value) float32, every world for a central critic, column after column."""
        return self.worlds.state()

    def call(
        self, name: Any, args: Sequence[Any], kwargs: Mapping[str, Any], envs: Sequence[int]
    ) -> list[Any]:
        """What a method returns, or an attribute is, of each of these worlds.

        Args:
            name: of a method or attribute of `world.World`; or a callable, called with it.
            args: for the method.
            kwargs: for the method.
            envs: indices of worlds.
        """
        out = []
        for env in envs:
            world = self.worlds.world(env)
            if not isinstance(name, str):
                out.append(name(world, *args, **kwargs))
                continue
            value = getattr(world, name)
            out.append(value(*args, **kwargs) if callable(value) else value)
        return out

    def set_attr(self, name: str, values: Sequence[Any], envs: Sequence[int]) -> None:
        """Set an attribute of each of these worlds, such as ``horizon``."""
        for env, value in zip(envs, values, strict=True):
            setattr(self.worlds.world(env), name, value)

    def render(self, envs: Sequence[int]) -> list[Any]:
        """A picture of each of these worlds."""
        return [self.worlds.world(env).render() for env in envs]

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what happens next, as numpy arrays and numbers.

        Raises:
            StateError: a world was not reset, or the last call failed.
        """
        self.worlds.intake.restore()
        mine = {name: getattr(self.worlds, name).copy() for name in _SAVED}
        return {"engine": self.engine.state_dict(), **mine}

    def load_state_dict(self, state: Mapping[str, Any]) -> Frame:
        """Go on where a state was taken, on any pool.

        Args:
            state: of `state_dict`, of as many worlds of the same model.

        Returns:
            What is to be seen there. Worlds that have ended are `over`.

        Raises:
            SnapshotError: it is of something else. Nothing was changed.
        """
        where = f"{self.spec.name}.load_state_dict()"
        if not isinstance(state, Mapping) or not {"engine", *_SAVED} <= set(state):
            raise SnapshotError(f"{where}: expected a dict of state_dict(), got {_kind(state)}")
        arrays = {}
        for name in _SAVED:
            mine, given = getattr(self.worlds, name), np.asarray(state[name])
            if given.shape != mine.shape or given.dtype != mine.dtype:
                raise SnapshotError(
                    f"{where}: expected {name} of shape {mine.shape} and dtype {mine.dtype}, got "
                    f"{given.shape} and {given.dtype}"
                )
            arrays[name] = given
        self.engine.load_state_dict(state["engine"])
        self._waiting.clear()
        for name, given in arrays.items():
            getattr(self.worlds, name)[...] = given
        self.worlds.settle(np.arange(self.spec.num_envs))
        frame = _next(self._ring)
        self.worlds.show(frame, np.ones(self.spec.num_envs, np.bool_))
        frame.over[:] = self.worlds.ended
        self._stale = self._checked = self.failed = False
        return self._shown_frame(frame)

    def close(self, timeout: float | None = None) -> None:
        """Free the engine. May be called twice; frames stay readable."""
        self._waiting.clear()
        self.worlds.close()


def _readonly(array: Array) -> Array:
    view = array[:]
    view.flags.writeable = False
    return view


def _next(ring: FrameRing) -> Frame:
    frame = ring.next()
    assert frame is not None  # private rings never run out
    return frame


def _kind(state: Any) -> str:
    return f"one with {sorted(state)}" if isinstance(state, Mapping) else type(state).__name__
