"""`Engine`: a model's worlds, their state as arrays, and the step.

The native core does the work (or, with ``compiled=False``, a plain-Python engine with the same
results); this file allocates the state, checks what the caller gives, and turns faults into
exceptions. :meth:`Engine.step` and :meth:`Engine._run` are the main loop.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from . import build, faults
from .errors import (
    ActionError,
    AlreadySteppingError,
    ClosedError,
    ConfigError,
    ForkedError,
    SnapshotError,
    StateError,
)
from .faults import Fault
from .model import EventModel
from .seeds import Seeds
from .types import Array, BoolArray, FloatArray, PoolConfig, flag, whole

__all__ = ["Engine"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_AGAIN = 1  # SEER_AGAIN


def _one_at_a_time(
    method: Callable[Concatenate[Engine, _P], _R],
) -> Callable[Concatenate[Engine, _P], _R]:
    """Let one call into an engine run at a time; a second one is an error, not a wait.

    The token is known before it is put down, so an interrupt at any point takes it away again.
    """

    @functools.wraps(method)
    def call(self: Engine, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        held, token = self._held, object()
        try:
            if held.setdefault("by", token) is not token:
                raise AlreadySteppingError(
                    f"{self._name}.{method.__name__}(): another call into this engine is running; "
                    "use one engine per thread"
                )
            if method.__name__ != "close":
                self._must_be_open(method.__name__)
            return method(self, *args, **kwargs)
        finally:
            if "by" in held and held["by"] is token:
                del held["by"]

    return call  # type: ignore[return-value]  # the checker can't see that it is a method


class Engine:
    """Any number of worlds of one model, stepped together.

    Args:
        model: an :class:`~seer.EventModel`, or its class for the default parameters.
        worlds: how many independent copies, at least 1.
        pool: a :class:`~seer.PoolConfig`, or "auto": as many threads as this process may use,
            over worlds where there are at least two for each thread, else over lanes. It never
            changes results.
        compiled: False runs the methods as plain Python, checking every access.
        debug: compile with bounds checks.
        native: name of a kind or sweep -> address of a C function that replaces its method.
        strict_actions: an action outside its Box is an error instead of being clipped.

    Raises:
        ConfigError: an argument is not legal.
        OutOfMemoryError: the state does not fit into memory.

    An engine may be used from any thread, one call at a time. It is a context manager, and closes
    itself when it is no longer used.
    """

    def __init__(
        self,
        model: EventModel | type[EventModel],
        worlds: int = 1,
        pool: PoolConfig | Literal["auto"] = "auto",
        *,
        compiled: bool = True,
        debug: bool = False,
        native: Mapping[str, int] | None = None,
        strict_actions: bool = False,
    ) -> None:
        self._status = "new"  # then ready, failed, closed, forked
        self._held: dict[str, object] = {}
        self.model = build.instance(model)
        self.spec = spec = self.model.spec
        self.worlds = build.world_count(worlds)
        self.compiled = flag(f"Engine(compiled={compiled!r})", compiled)
        debug = flag(f"Engine(debug={debug!r})", debug)
        strict_actions = flag(f"Engine(strict_actions={strict_actions!r})", strict_actions)
        self._name = f"Engine({spec.name})"
        self._pool = build.pool_config(pool, self.worlds)
        self._latest, self._seen = build.allocate(spec, self.worlds, self._name)
        self._views = build.views(spec, self._latest, self._seen)
        self._actions = build.action_check(self.model, self._latest, strict_actions)
        self._seeds = Seeds(self.worlds, self._name)
        self._begun: BoolArray = np.zeros(self.worlds, bool)
        self._steps_left = faults.TIME_MAX // spec.step  # at least, of every world
        self._last_fault: Fault | None = None
        self._core = build.core(
            self.model, self.worlds, self._latest, self._seen, self._pool, self.compiled,
            debug, native,
        )  # fmt: skip
        self._finalizer = weakref.finalize(self, _finish, self._core, self._held)
        _ENGINES.add(self)

    # ---- the main loop ---------------------------------------------------------------------

    @_one_at_a_time
    def step(self, actions: Any = None, mask: Any = None) -> None:
        """Run one step of every world.

        Args:
            actions: (worlds, agents, ...) of the action's dtype or one that casts within its kind;
                copied. None takes what stands in :attr:`action`.
            mask: (worlds,) bool, which worlds take part; all by default.

        Raises:
            ActionError: an action is not a number, out of range, of the wrong shape or dtype.
            FaultError: something that the model did; then only `reset` and `close` are legal.
            StateError: a world that takes part was not reset, or has reached the last tick.
        """
        chosen = self._step_allowed(mask)
        if self._actions is not None:
            self._actions.take(actions, chosen)
        elif actions is not None:
            raise ActionError(f"{self._name}.step(): {self.spec.name} declares no action, got one")
        self._run(self._core.step, chosen)

    @_one_at_a_time
    def _step_as_checked(self, mask: Any = None) -> None:
        """A step with the actions in :attr:`action`, which `ActionCheck.take` has passed."""
        self._run(self._core.step, self._step_allowed(mask))

    def _step_allowed(self, mask: Any) -> Array | None:
        """The worlds that a step takes part in; raises where there may be none."""
        chosen = self._mask(mask)
        if self._status != "ready":
            self._refuse_step(chosen)
        self._steps_left -= 1
        if self._steps_left < 0:
            self._look_at_clocks(chosen)
        return chosen

    def _run(self, begin: Callable[..., int], *given: Any) -> None:
        """Run what may pause every 20 ms so that Python handles signals (Ctrl-C, for one)."""
        core = self._core
        try:
            code = begin(*given)
            while code == _AGAIN:
                code = core.proceed()
        except BaseException:
            self._status = "failed"
            core.abandon()
            raise
        if code < 0:
            self._fail(code)

    def _fail(self, code: int) -> None:
        """Raise what the core reports."""
        fault = self._core.fault()
        if fault.code != -code:  # not of the model: busy, forked, no memory
            fault = Fault(-code)
        if fault.code != faults.EBUSY:
            self._status = "forked" if fault.code == faults.EFORKED else "failed"
            self._last_fault = fault
        raise faults.exception(self.spec, fault) from self._core.cause

    # ---- reset -----------------------------------------------------------------------------

    @_one_at_a_time
    def reset(self, seed: Any = None, mask: Any = None) -> None:
        """Begin a new episode.

        Args:
            seed: world i gets seed + i; a sequence gives each world its own (None among them
                continues). None adds one to the episode of a world that was seeded; a world that
                never was gets a seed from the operating system. :attr:`seeds` shows them.
            mask: (worlds,) bool, which worlds; all by default. After a fault it must be all.

        Raises:
            ConfigError: a seed is not a whole number from 0 to 2**64 - 1.
            FaultError: something that a reset sweep did.
        """
        chosen = self._mask(mask)
        if self._status == "failed" and chosen is not None and not chosen.all():
            raise StateError(
                f"{self._name}.reset(): an earlier call failed, so all worlds must be reset; "
                f"the mask leaves out {int((chosen == 0).sum())}"
            )
        these = np.ones(self.worlds, bool) if chosen is None else chosen != 0
        self._seeds.begin_episode(seed, these)
        self._status = "failed"  # until it has succeeded
        self._run(self._core.reset, chosen, self.seeds, self.episodes)
        self._begun |= these
        self._last_fault = None
        self._status = "ready" if self._begun.all() else "new"

    @property
    def seeds(self) -> Array:
        """(worlds,) uint64, the seed of each world."""
        return self._seeds.seeds

    @property
    def episodes(self) -> Array:
        """(worlds,) uint64, episodes begun since a world was seeded, the first being 0."""
        return self._seeds.episodes

    # ---- what can be read and written ----------------------------------------------------------

    @property
    def columns(self) -> Mapping[str, Array]:
        """Name -> (worlds, count, ...) the latest values, writable views.

        What is written between steps is published before the next step's first sweep.
        """
        return self._views.columns

    @property
    def seen(self) -> Mapping[str, Array]:
        """Name -> (worlds, count, ...) what was last published, read-only views."""
        return self._views.seen

    @property
    def totals(self) -> Mapping[str, FloatArray]:
        """Name -> (worlds,) float64, each reduction over the columns as they are now."""
        return self._views.totals

    @property
    def action(self) -> Array:
        """(worlds, agents, ...) the actions of the next step, a writable view."""
        return self._role("action")

    @property
    def observation(self) -> Array:
        """(worlds, agents, ...) what the last step or reset let the agents observe, a view."""
        return self._role("observation")

    @property
    def reward(self) -> FloatArray:
        """(worlds, agents) float64, a view."""
        return self._role("reward")

    @property
    def terminated(self) -> BoolArray:
        """(worlds, agents) bool, for whom the task has ended, a view."""
        return self._role("terminated")

    @property
    def alive(self) -> BoolArray:
        """(worlds, agents) bool, who lives, a view; of all entities in a model without agents."""
        return self._role("alive")

    @property
    def clipped(self) -> int:
        """How many agents' actions were clipped into their Box since the engine was made."""
        return self._actions.clipped if self._actions is not None else 0

    @property
    def fault(self) -> Fault | None:
        """The fault that the last call raised, in ticks; None after a reset."""
        return self._last_fault

    def counters(self) -> dict[str, Any]:
        """What was counted since the engine was made, over all worlds.

        Returns:
            "handled" and "unhandled" (for dead entities, or kinds without a handler) events,
            "sent", "windows", "sweeps" and what the pool did; "kinds": handled, by kind.
        """
        self._must_be_open("counters")
        sums, kinds = self._core.counters()
        return {**sums, "kinds": {k.name: n for k, n in zip(self.spec.kinds, kinds, strict=True)}}

    def time(self, world: int = 0) -> float:
        """Simulated time since a world's reset, s."""
        return self.spec.seconds(self._clock(world, "time")[0])

    def steps(self, world: int = 0) -> int:
        """Steps since a world's reset."""
        return self._clock(world, "steps")[1]

    def memory(self) -> dict[str, int]:
        """Bytes held: "columns", and "events" for the queue and all else of the core."""
        self._must_be_open("memory")
        arrays = [*self._latest, *(a for a in self._seen if a is not None)]
        return {"columns": sum(a.nbytes for a in arrays), "events": self._core.memory()}

    # ---- pool, state, end --------------------------------------------------------------------

    @property
    def pool(self) -> PoolConfig:
        """The pool configuration in use."""
        return self._pool

    @_one_at_a_time
    def set_pool(self, pool: PoolConfig | Literal["auto"]) -> None:
        """Use another pool from the next step on. Results do not change."""
        config = build.pool_config(pool, self.worlds)
        code = self._core.set_pool(config)
        if code:
            raise faults.exception(self.spec, Fault(abs(code)), "it refused the pool")
        self._pool = config

    @_one_at_a_time
    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what happens next, as numpy arrays and numbers.

        The same on every pool, for the compiled and the plain form.

        Raises:
            StateError: a world was not reset, or the last call failed.
        """
        from .snapshot import take

        if self._status != "ready":
            self._refuse_step(None, "state_dict")
        return take(self)

    @_one_at_a_time
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, with any pool, compiled or not.

        Args:
            state: of :meth:`state_dict`, of the same model with the same parameters and as many
                worlds.

        Raises:
            SnapshotError: it is of another model or format, or damaged. Nothing was changed.
        """
        from .snapshot import restore

        restore(self, state)

    @_one_at_a_time
    def close(self) -> None:
        """Give back what the engine holds. May be called twice; views stay readable."""
        if self._status not in ("closed", "forked") and self._finalizer.detach():
            self._core.close()
        self._status = "closed"

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        form = "" if self.compiled else ", plain Python"
        state = {
            "new": "not yet reset",
            "ready": "step " + ("?" if "by" in self._held else str(self._at())),
            "failed": "failed, reset it",
            "forked": "unusable copy in a forked process",
        }.get(self._status, self._status)
        worlds = "1 world" if self.worlds == 1 else f"{self.worlds} worlds"
        return f"<Engine of {self.model!r}: {worlds}, {self._pool}{form}; {state}>"

    def _at(self) -> int:
        return self._core.steps(0) if self._status == "ready" else 0

    # ---- small checks ----------------------------------------------------------------------

    def _mask(self, mask: Any) -> Array | None:
        if mask is None:
            return None
        try:
            chosen = np.asarray(mask)
        except Exception as error:
            raise ConfigError(f"{self._name}: mask: expected bools, got {error}") from error
        if chosen.shape != (self.worlds,) or chosen.dtype.kind not in "bu":
            raise ConfigError(
                f"{self._name}: mask: expected bool of shape ({self.worlds},), "
                f"got {chosen.dtype} of shape {chosen.shape}"
            )
        return np.ascontiguousarray(chosen != 0).view(np.uint8)

    def _refuse_step(self, chosen: Array | None, what: str = "step") -> None:
        """Why a step is not legal now; nothing if only worlds outside the mask are not ready."""
        if self._status == "failed":
            raise StateError(
                f"{self._name}.{what}(): only reset and close are legal now: an earlier call failed"
            )
        missing = ~self._begun if chosen is None else ~self._begun & (chosen != 0)
        if missing.any():
            raise StateError(
                f"{self._name}.{what}(): call reset() first: world {int(np.argmax(missing))} "
                "was never reset"
            )

    def _look_at_clocks(self, chosen: Array | None) -> None:
        """Refuse a step that would end beyond the last tick."""
        most = faults.TIME_MAX // self.spec.step
        left = most - np.array([self._core.steps(world) for world in range(self.worlds)])
        over = left < 1 if chosen is None else (left < 1) & (chosen != 0)
        if over.any():
            raise StateError(
                f"{self._name}.step(): world {int(np.argmax(over))} has come to the last tick, "
                f"{self.spec.seconds(most * self.spec.step):.9g} s: reset it"
            )
        self._steps_left = max(int(left.min()) - 1, 0)

    def _unusable(self, what: str) -> StateError:
        if self._status == "forked":
            return ForkedError(
                f"{self._name}.{what}(): the process was forked while this engine was stepping, "
                "so its copy here is unusable: make a new engine in the child"
            )
        return ClosedError(f"{self._name}.{what}(): the engine has been closed")

    def _must_be_open(self, what: str) -> None:
        # When the process ends the finalizer runs first, and other objects may come after it.
        if self._status in ("closed", "forked") or not self._finalizer.alive:
            raise self._unusable(what)

    def _clock(self, world: int, what: str) -> tuple[int, int]:
        self._must_be_open(what)
        number = whole(world)
        if number is None or not 0 <= number < self.worlds:
            raise ConfigError(
                f"{self._name}.{what}({world!r}): expected a world from 0 to {self.worlds - 1}"
            )
        return self._core.tick(number), self._core.steps(number)

    def _role(self, role: str) -> Array:
        view = self._views.roles.get(role)
        if view is None:
            raise ConfigError(
                f"{self.spec.name} declares no {role}: write `name = seer.{role}(...)` in the model"
            )
        return view

    def _load_worlds(self, parts: list[tuple[Any, ...]]) -> None:
        """Hand each world's pending events and clock to the core; for `snapshot`."""
        self._status = "failed"
        self._steps_left = 0  # until the clocks have been looked at
        for world, part in enumerate(parts):
            if self._core.load(world, *part) != 0:
                raise SnapshotError(
                    f"{self._name}.load_state_dict(): the events of world {world} are damaged; "
                    "reset the engine"
                )
        self._begun[...] = self._seeds.given[...] = True
        self._last_fault = None
        self._status = "ready"


def _finish(core: Any, held: dict[str, object]) -> None:
    """Free the core, unless a thread is still inside it, as may be when the process ends."""
    if not held:
        core.close()


_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Of a thread that was stepping nothing is left here: its engine is unusable."""
    for engine in list(_ENGINES):
        if engine._held:
            engine._held = {}
            engine._status = "forked"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
