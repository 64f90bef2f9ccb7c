"""`Engine`: a model's worlds, their state as arrays, and the step.

The native core does the work (or, with ``compiled=False``, a plain-Python engine with the same
results); this file allocates the state, checks what the caller gives, and turns faults into
exceptions. :meth:`Engine.step` and :meth:`Engine._run` are the main loop.
"""

from __future__ import annotations

import difflib
import functools
import operator
import os
import secrets
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from . import faults
from .action_check import ActionCheck
from .arrays import Named, Totals, aligned
from .errors import (
    ActionError,
    AlreadySteppingError,
    ClosedError,
    ConfigError,
    ForkedError,
    OutOfMemoryError,
    SnapshotError,
    StateError,
)
from .faults import Fault
from .hardware import usable_cpus
from .model import EventModel
from .reference import ReferenceCore
from .types import Array, BoolArray, FloatArray, PoolConfig

__all__ = ["Engine"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_AGAIN = 1  # SEER_AGAIN
_MAX_SEED = 2**64 - 1


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
            if self._status in ("closed", "forked") and method.__name__ != "close":
                raise self._unusable(method.__name__)
            return method(self, *args, **kwargs)
        finally:
            if "by" in held and held["by"] is token:
                del held["by"]

    return call


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
        self.model = _instance(model)
        self.spec = spec = self.model.spec
        self.worlds = _count(worlds)
        self._name = f"Engine({spec.name})"
        self._pool = _pool(pool, self.worlds)
        self.compiled = bool(compiled)
        self._latest, self._seen = self._allocate()
        self._actions = self._checker(strict_actions)
        self._views = self._make_views()
        self.seeds: Array = np.zeros(self.worlds, np.uint64)
        self.episodes: Array = np.zeros(self.worlds, np.uint64)
        self._seeded: BoolArray = np.zeros(self.worlds, bool)
        self._begun: BoolArray = np.zeros(self.worlds, bool)
        self._last_fault: Fault | None = None
        self._core = self._make_core(debug, dict(native or {}))
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
            StateError: a world that takes part was not reset.
        """
        chosen = self._mask(mask)
        if self._status != "ready":
            self._refuse_step(chosen)
        if self._actions is not None:
            self._actions.take(actions, chosen)
        elif actions is not None:
            raise ActionError(f"{self._name}.step(): {self.spec.name} declares no action, got one")
        self._run(self._core.step, chosen)

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
        self._seed(seed, np.ones(self.worlds, bool) if chosen is None else chosen != 0)
        self._status = "failed"  # until it has succeeded
        self._run(self._core.reset, chosen, self.seeds, self.episodes)
        self._begun[...] |= True if chosen is None else chosen != 0
        self._last_fault = None
        self._status = "ready" if self._begun.all() else "new"

    def _seed(self, seed: Any, chosen: BoolArray) -> None:
        given: list[int | None]
        if seed is None:
            given = [None] * self.worlds
        elif isinstance(seed, (list, tuple, np.ndarray)) and np.ndim(seed) == 1:
            if len(seed) != self.worlds:
                raise ConfigError(
                    f"{self._name}.reset(seed=...): expected one seed for each of {self.worlds} "
                    f"worlds, got {len(seed)}"
                )
            given = [None if one is None else self._whole(one, 0) for one in seed]
        else:
            first = self._whole(seed, self.worlds - 1)
            given = [first + world for world in range(self.worlds)]
        fresh: int | None = None
        for world in np.flatnonzero(chosen):
            value = given[world]
            if value is None and self._seeded[world]:
                self.episodes[world] += np.uint64(1)
                continue
            if value is None:
                fresh = secrets.randbits(62) if fresh is None else fresh
                value = fresh + int(world)
            self.seeds[world], self.episodes[world] = value, 0
            self._seeded[world] = True

    def _whole(self, seed: Any, above: int) -> int:
        what = f"{self._name}.reset(seed={seed!r})"
        if isinstance(seed, (bool, np.bool_)):
            raise ConfigError(f"{what}: expected a whole number, got a bool")
        try:
            value = operator.index(seed)
        except TypeError:
            raise ConfigError(
                f"{what}: expected a whole number, a sequence of them or None, "
                f"got {type(seed).__name__}"
            ) from None
        if not 0 <= value <= _MAX_SEED - above:
            raise ConfigError(f"{what}: expected 0 to 2**64 - {above + 1}, got {value}")
        return value

    # ---- what can be read and written ----------------------------------------------------------

    @property
    def columns(self) -> Mapping[str, Array]:
        """Name -> (worlds, count, ...) the latest values, writable views.

        What is written between steps is published before the next step's first sweep.
        """
        return self._views["columns"]

    @property
    def seen(self) -> Mapping[str, Array]:
        """Name -> (worlds, count, ...) what was last published, read-only views."""
        return self._views["seen"]

    @property
    def totals(self) -> Mapping[str, FloatArray]:
        """Name -> (worlds,) float64, each reduction over the columns as they are now."""
        return self._views["totals"]

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
        return self._clock(world, "time")[0] * self.spec.tick

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
        config = _pool(pool, self.worlds)
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

    # ---- building ------------------------------------------------------------------------------

    def _allocate(self) -> tuple[list[Array], list[Array | None]]:
        spec = self.spec
        try:
            latest = [aligned(self._shape(c), c.dtype) for c in spec.columns]
            seen = [aligned(self._shape(c), c.dtype) if c.published else None for c in spec.columns]
        except (MemoryError, ValueError, OverflowError) as error:
            size = sum(c.row_bytes * c.group.count * (1 + c.published) for c in spec.columns)
            raise OutOfMemoryError(
                f"{self._name}: {self.worlds} worlds need {self.worlds * size} bytes for their "
                f"columns, which could not be had"
            ) from error
        return latest, seen

    def _shape(self, column: Any) -> tuple[int, ...]:
        return (self.worlds, column.group.count, *column.shape)

    def _make_views(self) -> dict[str, Any]:
        spec = self.spec
        columns = {c.name: a for c, a in zip(spec.columns, self._latest, strict=True)}
        seen = {}
        for c, a in zip(spec.columns, self._seen, strict=True):
            if a is not None:
                seen[c.name] = a.view()
                seen[c.name].flags.writeable = False
        roles = {c.role: a for c, a in zip(spec.columns, self._latest, strict=True) if c.role}
        if "terminated" in roles:
            roles["terminated"] = roles["terminated"].view(bool)
        group = spec.agents
        alive = self._latest[0].view(bool)
        roles["alive"] = alive[:, group.first : group.first + group.count] if group else alive
        return {
            "columns": Named("column", columns),
            "seen": Named("published column", seen),
            "totals": Totals(spec, self._latest),
            "roles": roles,
        }

    def _checker(self, strict: bool) -> ActionCheck | None:
        column = self.spec.role("action")
        group = self.spec.agents
        if column is None or group is None:
            return None
        space = getattr(self.model, "action_space", None)
        return ActionCheck(
            self._latest[self.spec.column_index(column.name)],
            self._latest[0].view(bool)[:, group.first : group.first + group.count],
            group.name,
            space(self.model.p) if space is not None else None,
            bool(strict),
        )

    def _make_core(self, debug: bool, native: dict[str, int]) -> Any:
        spec = self.spec
        if not self.compiled:
            if native:
                raise ConfigError(f"{self._name}: native functions need compiled=True")
            return ReferenceCore(spec, self.worlds, self._latest, self._seen)
        known = [s.name for s in spec.sweeps] + [k.name for k in spec.kinds]
        for name in native:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"{self._name}: native={{{name!r}: ...}} names no sweep or kind{hint}"
                )
        from .core import NativeCore

        sweeps = [native.get(s.name, 0) for s in spec.sweeps]
        handlers = [native.get(k.name, 0) for k in spec.kinds]
        code = None
        methods = [(s.name, s.method) for s in spec.sweeps] + [(k.name, k.method) for k in spec.kinds]
        if any(method is not None and name not in native for name, method in methods):
            from .compile import compile_model

            code = compile_model(self.model, debug=bool(debug))
            sweeps = [mine or theirs for mine, theirs in zip(sweeps, code.sweeps, strict=True)]
            handlers = [mine or theirs for mine, theirs in zip(handlers, code.handlers, strict=True)]
        return NativeCore(
            spec, self.worlds, self._latest, self._seen, sweeps, handlers, self._pool, keep=code
        )

    # ---- small checks ----------------------------------------------------------------------

    def _mask(self, mask: Any) -> Array | None:
        if mask is None:
            return None
        chosen = np.asarray(mask)
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

    def _unusable(self, what: str) -> StateError:
        if self._status == "forked":
            return ForkedError(
                f"{self._name}.{what}(): the process was forked while this engine was stepping, "
                "so its copy here is unusable: make a new engine in the child"
            )
        return ClosedError(f"{self._name}.{what}(): the engine has been closed")

    def _must_be_open(self, what: str) -> None:
        if self._status in ("closed", "forked"):
            raise self._unusable(what)

    def _clock(self, world: int, what: str) -> tuple[int, int]:
        self._must_be_open(what)
        number = operator.index(world)
        if not 0 <= number < self.worlds:
            raise ConfigError(
                f"{self._name}.{what}({world}): expected a world from 0 to {self.worlds - 1}"
            )
        return self._core.tick(number), self._core.steps(number)

    def _role(self, role: str) -> Any:
        view = self._views["roles"].get(role)
        if view is None:
            raise ConfigError(
                f"{self.spec.name} declares no {role}: write `name = seer.{role}(...)` in the model"
            )
        return view

    def _load_worlds(self, parts: list[tuple[Any, ...]]) -> None:
        """Hand each world's pending events and clock to the core; for `snapshot`."""
        self._status = "failed"
        for world, part in enumerate(parts):
            if self._core.load(world, *part) != 0:
                raise SnapshotError(
                    f"{self._name}.load_state_dict(): the events of world {world} are damaged; "
                    "reset the engine"
                )
        self._begun[...] = self._seeded[...] = True
        self._last_fault = None
        self._status = "ready"


def _instance(model: Any) -> EventModel:
    if isinstance(model, type) and issubclass(model, EventModel):
        model = model()
    if not isinstance(model, EventModel):
        raise ConfigError(
            f"Engine(model={model!r}): expected a seer.EventModel or a class derived from it, "
            f"got {type(model).__name__}"
        )
    return model


def _count(worlds: Any) -> int:
    if isinstance(worlds, (bool, np.bool_)) or not hasattr(worlds, "__index__"):
        raise ConfigError(
            f"Engine(worlds={worlds!r}): expected a whole number, got {type(worlds).__name__}"
        )
    value = operator.index(worlds)
    if not 1 <= value < 2**31:
        raise ConfigError(f"Engine(worlds={value}): expected at least 1 and under 2**31, got {value}")
    return value


def _pool(pool: Any, worlds: int) -> PoolConfig:
    if isinstance(pool, PoolConfig):
        return pool
    if pool != "auto":
        raise ConfigError(f'pool={pool!r}: expected "auto" or a PoolConfig, got {type(pool).__name__}')
    threads = usable_cpus()
    axis: Literal["worlds", "lanes"] = (
        "worlds" if worlds >= 2 * threads or threads == 1 else "lanes"
    )
    return PoolConfig(min(threads, 64), axis)


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
