"""Does a model give the same bits on every pool? The determinism check for anyone's model.

One thread on its own is the measure. The same seed and actions then run on every pool
configuration, and after each step all columns, what is published and all pending events are
compared byte by byte. Small models also run as plain Python, where the order of events must be the
same and floating-point values agree to a tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .engine import Engine
from .errors import ConfigError, FaultError, VerifyError
from .snapshot import digest
from .types import PoolConfig, whole

__all__ = ["Difference", "Report", "pools", "verify"]

_KEEP_BYTES = 256 << 20
_PLAIN_WORK = 20_000  # entities * worlds * steps that plain Python does in a few seconds
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Difference:
    """The first place where a run was not like the run on one thread."""

    pool: str
    step: int
    """After how many steps; 0 is the reset."""
    time: float
    """Simulated time there, s."""
    world: int
    what: str
    """A column, a published column, or something of the pending events."""
    entity: int | None
    expected: str
    got: str

    def __str__(self) -> str:
        entity = "" if self.entity is None else f", entity {self.entity}"
        return (
            f"{self.pool}: after step {self.step} ({self.time:.9g} s), world {self.world}{entity}: "
            f"{self.what} is {self.got}, expected {self.expected}"
        )


@dataclass(frozen=True)
class Report:
    """What :func:`verify` found. True where everything was equal."""

    model: str
    steps: int
    worlds: int
    seed: int
    pools: tuple[PoolConfig, ...]
    differences: tuple[Difference, ...]
    plain_steps: int
    """Steps compared with plain Python; 0 where the model is too large for it."""
    digest: str
    """A hash of the state after the last step."""
    events: int
    """Events handled in one run."""
    seconds: float
    fault: str | None = field(default=None)
    """How every run ended, where the model itself fails."""

    @property
    def ok(self) -> bool:
        """Whether everything was equal."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.ok

    def check(self) -> Report:
        """This report, or VerifyError where something was not equal."""
        if not self.ok:
            raise VerifyError(str(self))
        return self

    def __str__(self) -> str:
        plain = f" and {self.plain_steps} steps of plain Python" if self.plain_steps else ""
        size = f"{self.steps} steps x {self.worlds} worlds, {self.events} events, seed {self.seed}"
        head = f"{self.model}: {len(self.pools)} pools{plain} against one thread, {size}: "
        if self.ok:
            lines = [f"{head}equal to the bit (state {self.digest[:16]}, {self.seconds:.1f} s)"]
        else:
            lines = [f"{head}NOT EQUAL in {len(self.differences)} runs"]
            lines += [f"  {difference}" for difference in self.differences]
        if self.fault:
            lines.append(f"  every run ended with: {self.fault}")
        return "\n".join(lines)


def pools(threads: Iterable[int] = (1, 2, 3, 4)) -> tuple[PoolConfig, ...]:
    """The configurations that `verify` tries: axes, grains, spins, orders of claims.

    Args:
        threads: how many threads; more than there are cores is meant to be tried as well.
    """
    made = []
    for count in threads:
        for spin in (0.0, 20.0):
            for grain in (1, 2):
                made.append(PoolConfig(count, "worlds", grain, spin))
            for grain in (0, 1, 16):
                made.append(PoolConfig(count, "lanes", grain, spin, share=count > 1))
        if count > 1:
            made += [PoolConfig(count, "lanes", 1, 5.0, share=True, shuffle=n) for n in (1, 2)]
            made.append(PoolConfig(count, "worlds", 1, 5.0, share=True, shuffle=3))
    return tuple(made)


def verify(
    model: Any,
    steps: int = 20,
    worlds: int = 3,
    seed: int = 0,
    *,
    configs: Sequence[PoolConfig] | None = None,
    plain: bool | None = None,
    raises: bool = False,
) -> Report:
    """Run a model on every pool and compare each step with one thread.

    Args:
        model: an :class:`~seer.EventModel` or its class.
        steps: how many steps each run has, at least 1.
        worlds: copies in each run, at least 1.
        seed: of world 0; world i has seed + i. The actions come from it as well.
        configs: the pools; :func:`pools` by default.
        plain: whether to run plain Python too; None does so where it takes a few seconds.
        raises: raise VerifyError instead of returning a report of differences.

    Returns:
        A report that is true if nothing differed, and prints what did.

    Raises:
        ConfigError: an argument is not legal, such as steps or worlds below 1.
        ModelError: in plain Python a method breaks a rule of models.
        VerifyError: with `raises`, where something differed.
    """
    for name, value in (("steps", steps), ("worlds", worlds)):
        number = whole(value)
        if number is None or number < 1:
            raise ConfigError(f"verify({name}={value!r}): expected a whole number above 0")
    steps, worlds, first = int(steps), int(worlds), whole(seed)
    if first is None or not 0 <= first <= 2**64 - worlds:
        raise ConfigError(
            f"verify(seed={seed!r}): expected a whole number from 0 to 2**64 - {worlds}"
        )
    seed = first
    start = time.perf_counter()
    tried = _checked(pools() if configs is None else configs)
    differences = []
    with (
        Engine(model, worlds, PoolConfig(1)) as base,
        Engine(model, worlds, PoolConfig(1)) as other,
    ):
        # Plain Python goes first: it tells of an index out of range, which compiled code follows.
        plain_steps = _plain_steps(base, steps, plain)
        plainly: list[dict[str, Any]] = []
        if plain_steps:
            with Engine(base.model, worlds, PoolConfig(1), compiled=False) as slow:
                plainly = list(_run(slow, plain_steps, seed))
        trail: list[dict[str, Any]] = []
        held, fault, last = 0, None, None
        for state in _run(base, steps, seed):
            fault, last = state.get("fault"), state
            held += sum(a.nbytes for a in state.get("columns", {}).values()) * 2
            if held <= _KEEP_BYTES:
                trail.append(state)
        events = base.counters()["handled"]
        kept = held <= _KEEP_BYTES
        for config in tried:
            other.set_pool(config)
            expected = iter(trail) if kept else _run(base, steps, seed)
            found = _first_difference(
                expected, _run(other, steps, seed), str(config), base.spec, 0.0
            )
            if found is not None:
                differences.append(found)
        if plain_steps:
            found = _first_difference(
                _run(base, plain_steps, seed), plainly, "plain Python", base.spec, _TOLERANCE
            )
            if found is not None:
                differences.append(found)
        report = Report(
            model=repr(base.model), steps=steps, worlds=worlds, seed=seed, pools=tried,
            differences=tuple(differences), plain_steps=plain_steps,
            digest=digest(last) if last and not fault else "", events=events,
            seconds=time.perf_counter() - start, fault=fault,
        )  # fmt: skip
    return report.check() if raises else report


def _checked(configs: Any) -> tuple[PoolConfig, ...]:
    """The pools to try, or ConfigError."""
    try:
        tried = tuple(configs)
    except TypeError:
        tried = (configs,)
    for config in tried:
        if not isinstance(config, PoolConfig):
            raise ConfigError(
                f"verify(configs=...): expected a sequence of PoolConfig, got {config!r} in it"
            )
    return tried


def _plain_steps(engine: Engine, steps: int, plain: bool | None) -> int:
    if plain is not None:
        return steps if plain else 0
    within = _PLAIN_WORK // (engine.spec.entities * engine.worlds)
    return min(steps, within)


def _run(engine: Engine, steps: int, seed: int) -> Iterator[dict[str, Any]]:
    """The states after the reset and after each step; a fault is the last of them."""
    rng = np.random.default_rng(seed)
    try:
        engine.reset(seed=seed)
        yield engine.state_dict()
        for _ in range(steps):
            engine.step(_actions(engine, rng))
            yield engine.state_dict()
    except FaultError as error:
        yield {"fault": f"{type(error).__name__}: {str(error).split('; ')[0]}"}


def _actions(engine: Engine, rng: np.random.Generator) -> Any:
    """Random legal actions, or None for a model without any."""
    check = engine._actions
    if check is None:
        return None
    column = check.column
    if check._low is None:
        return rng.standard_normal(column.shape).astype(column.dtype, casting="unsafe")
    if column.dtype.kind != "f":
        low, high = np.asarray(check._low, np.int64), np.asarray(check._high, np.int64)
        return rng.integers(low, high + 1, column.shape).astype(column.dtype)
    low = np.where(np.isfinite(check._low), check._low, -1.0)
    high = np.where(np.isfinite(check._high), check._high, 1.0)
    return rng.uniform(low, high, column.shape).astype(column.dtype)


def _first_difference(
    expected: Iterable[dict[str, Any]],
    got: Iterable[dict[str, Any]],
    pool: str,
    spec: Any,
    tolerance: float,
) -> Difference | None:
    for step, (want, have) in enumerate(zip(expected, got, strict=False)):
        found = _compare(want, have, spec, tolerance)
        if found is not None:
            world, what, entity, left, right = found
            return Difference(
                pool, step, spec.seconds(step * spec.step), world, what, entity, left, right
            )
    return None


def _compare(
    want: dict[str, Any], have: dict[str, Any], spec: Any, tolerance: float
) -> tuple[int, str, int | None, str, str] | None:
    """(world, what, entity, expected, got) of the first difference by world and entity."""
    if "fault" in want or "fault" in have:
        left, right = want.get("fault", "no fault"), have.get("fault", "no fault")
        return None if left == right else (0, "the outcome", None, left, right)
    found = []
    for number, column in enumerate(spec.columns):
        for group, title in (("columns", "s."), ("seen", "s.seen.")):
            if column.name not in want[group]:
                continue
            a, b = want[group][column.name], have[group][column.name]
            unlike = _unlike(a, b, tolerance)
            if unlike.any():
                world, row = (int(k) for k in np.argwhere(unlike)[0])
                entity = column.group.first + row
                where = (world, entity, number)
                found.append((where, f"{title}{column.name}", a[world, row], b[world, row]))
    if found:
        (world, entity, _), what, left, right = min(found, key=lambda item: item[0])
        return world, what, entity, _shown(left), _shown(right)
    return _compare_events(want, have, tolerance)


def _compare_events(
    want: dict[str, Any], have: dict[str, Any], tolerance: float
) -> tuple[int, str, int | None, str, str] | None:
    for name, what in (("lengths", "the number of its pending events"),
                       ("sequences", "the number of events it has sent")):  # fmt: skip
        unlike = want[name] != have[name]
        if unlike.any():
            world, entity = (int(k) for k in np.argwhere(unlike)[0])
            left, right = want[name][world, entity], have[name][world, entity]
            return world, what, entity, str(left), str(right)
    fields = [n for n in want["events"].dtype.names if n != "payload" or not tolerance]
    unlike = np.zeros(len(want["events"]), bool)
    for name in fields:
        unlike |= want["events"][name] != have["events"][name]
    if not tolerance:
        unlike |= (want["wide"] != have["wide"]).any(axis=1)
    if not unlike.any():
        return None
    at = int(np.argmax(unlike))
    ends = np.cumsum(want["lengths"].sum(axis=1))
    world = int(np.searchsorted(ends, at, side="right"))
    left, right = want["events"][at], have["events"][at]
    return world, "a pending event", int(left["target"]), _shown(left), _shown(right)


def _unlike(a: Any, b: Any, tolerance: float) -> Any:
    """(worlds, count) bool, where two columns differ; by their bytes if there is no tolerance."""
    if tolerance and a.dtype.kind == "f":
        unlike = ~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        bits = f"u{a.dtype.itemsize}"
        unlike = a.view(bits) != b.view(bits)
    result: Any = unlike.any(axis=tuple(range(2, unlike.ndim)))
    return result


def _shown(value: Any) -> str:
    return repr(value.tolist()) if isinstance(value, (np.ndarray, np.generic)) else repr(value)
