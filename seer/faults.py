"""What went wrong while a model ran, and the sentence that tells it.

Both engines, the native core and the plain-Python one, report a fault as the same record; this
file turns it into an exception that names kind or sweep, entities, times, limits and the line of
the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import errors
from .errors import FaultError, SeerError

# The numbers of enum seer_error in native/include/seer.h, in its order.
(
    OK,
    ENOMEM,
    EINVAL,
    EBUSY,
    EFORKED,
    ESTATE,
    EHANDLER,
    EFAIL,
    ECAUSALITY,
    EPAST,
    ETIME,
    ETARGET,
    EKIND,
    ELANE,
    EWORLD,
    ESTEP,
    EROUNDS,
    ESEQUENCE,
) = range(18)

NONE = 2**32 - 1  # SEER_NONE
NEVER = 2**63 - 1  # SEER_NEVER
TIME_MAX = 1 << 61  # SEER_TIME_MAX


@dataclass(frozen=True)
class Fault:
    """The fields of ``seer_fault``; times in ticks, :data:`NONE` where one does not apply."""

    code: int
    world: int = 0
    entity: int = NONE
    source: int = NONE
    sequence: int = 0
    target: int = NONE
    kind: int = NONE
    sweep: int = NONE
    handler: int = NONE
    round: int = 0
    time: int = 0
    event_time: int = 0
    limit: int = 0
    value: float = 0.0
    user_code: int = 0
    others: int = 0

    def key(self) -> tuple[int, ...]:
        """The order among faults; the smallest is the one reported."""
        return (self.world, self.time, self.entity, self.source, self.sequence)


class Words:
    """Names for the numbers in a fault, taken from a model's description."""

    def __init__(self, spec: Any, fault: Fault) -> None:
        self.spec = spec
        self.fault = fault

    def seconds(self, ticks: int) -> str:
        return f"{self.spec.seconds(ticks):.9g} s"

    def entity(self, number: int) -> str:
        for group in self.spec.groups:
            if group.first <= number < group.first + group.count:
                return f"{group.name} {number - group.first} (entity {number})"
        return f"entity {number}"

    def kind(self, number: int) -> str:
        if 0 <= number < len(self.spec.kinds):
            return f"event '{self.spec.kinds[number].name}'"
        return f"event of kind {number}"

    def method(self) -> Any:
        """The method that was running, or None where the record does not tell."""
        if self.fault.sweep < len(self.spec.sweeps):
            return self.spec.sweeps[self.fault.sweep].method
        if self.fault.handler < len(self.spec.kinds):
            return self.spec.kinds[self.fault.handler].method
        return None

    def where(self) -> str:
        """Who was running what, when."""
        fault = self.fault
        who = f"{self.entity(fault.entity)} at {self.seconds(fault.time)}"
        if fault.sweep < len(self.spec.sweeps):
            return f"sweep '{self.spec.sweeps[fault.sweep].name}' of {who}"
        if fault.handler < len(self.spec.kinds):
            return f"the handler of {self.kind(fault.handler)} of {who}"
        return f"a handler of {who}"

    def sent(self) -> str:
        """Who sent what to whom: the start of what is told of an event that was refused."""
        fault = self.fault
        target = f" to {self.entity(fault.target)}" if fault.target != NONE else ""
        return f"{self.where()} sent {self.kind(fault.kind)}{target}"


def _handler(w: Words) -> str:
    method = w.method()
    name = f" {method.name} raised an exception," if method is not None else " it raised,"
    return (
        f"{w.where()} failed:{name} or was a C function that returned 0. To see which exception, "
        "and its line, run it with compiled=False; debug=True checks indices"
    )


_ACCESS = -(2**31)  # user codes from here on are the engine's own
_RULES = ("entity", "other", "index")
INTEGERS = _ACCESS + 1000
"""The user code of ``ctx.integers(n)`` with an n below 1."""


def access_code(column: int, seen: bool, rule: str) -> int:
    """The user code by which compiled methods report a wrong access to a column."""
    return _ACCESS + (2 * column + seen) * len(_RULES) + _RULES.index(rule)


def _fail(w: Words) -> str:
    if w.fault.user_code == INTEGERS:
        return f"{w.where()} called ctx.integers(n): expected n of 1 to 2**63 - 1, got another"
    number, rule = divmod(w.fault.user_code - _ACCESS, len(_RULES))
    if number >= 2 * len(w.spec.columns):
        return f"{w.where()} reported failure with ctx.fail({w.fault.user_code})"
    column = w.spec.columns[number // 2]
    name = f"s.seen.{column.name}" if number % 2 else f"s.{column.name}"
    group = column.group
    return (
        f"{w.where()} used {name} wrongly: "
        + (
            f"expected an id of group '{group.name}', {group.first} to "
            f"{group.first + group.count - 1}, as the first index",
            f"an entity has only its own latest values, expected {name}[{w.fault.entity}]",
            f"an index is out of range, rows have shape {column.shape}",
        )[rule]
    )


def _causality(w: Words) -> str:
    f = w.fault
    return (
        f"{w.sent()} for {w.seconds(f.event_time)}, sooner than the lookahead allows: expected a "
        f"delay of at least {w.seconds(f.limit)} ({f.limit} ticks) to another entity, got "
        f"{f.event_time - f.time} ticks"
    )


def _past(w: Words) -> str:
    f = w.fault
    return (
        f"{w.sent()} for {w.seconds(f.event_time)}, which is in the past: expected a delay of at "
        f"least 0, got {f.event_time - f.time} ticks"
    )


def _time(w: Words) -> str:
    return (
        f"{w.sent()} with a delay of {w.fault.value!r} s: expected a finite delay that ends before "
        f"{w.seconds(TIME_MAX)}"
    )


def _target(w: Words) -> str:
    got = w.fault.target if w.fault.target != NONE else "a number outside that range"
    return (
        f"{w.where()} sent {w.kind(w.fault.kind)} to an entity that does not exist: expected "
        f"0 to {w.spec.entities - 1}, got {got}"
    )


def _kind(w: Words) -> str:
    return f"{w.where()} sent an event of kind {w.fault.kind}, which does not exist: expected " + (
        f"0 to {len(w.spec.kinds) - 1}"
    )


def _refused(w: Words) -> str:
    f = w.fault
    return (
        f"{w.kind(f.kind)} from {w.entity(f.source)}, its number {f.sequence}, due at "
        f"{w.seconds(f.event_time)}"
    )


def _lane(w: Words) -> str:
    f = w.fault
    return (
        f"more events are pending for {w.entity(f.entity)} at {w.seconds(f.time)} than "
        f"lane_capacity={f.limit} allows; the first one refused is {_refused(w)}. "
        "Send less, or raise lane_capacity"
    )


def _world(w: Words) -> str:
    f = w.fault
    return (
        f"more events are pending in world {f.world} at {w.seconds(f.time)} than "
        f"world_capacity={f.limit} allows. Send less, or raise world_capacity"
    )


def _step(w: Words) -> str:
    f = w.fault
    return (
        f"world {f.world} handled more events in one step than step_capacity={f.limit} allows, "
        f"at {w.seconds(f.time)}. Send less, or raise step_capacity"
    )


def _rounds(w: Words) -> str:
    f = w.fault
    return (
        f"{w.sent()} for the present instant in round {f.round}: events there have caused each "
        f"other for more rounds than max_rounds={f.limit} allows. Let the chain end, give it a "
        "delay, or raise max_rounds"
    )


def _sequence(w: Words) -> str:
    return f"{w.where()}: {w.entity(w.fault.entity)} has sent 2**32 - 1 events since its reset"


_TEXT: dict[int, tuple[type[FaultError], Callable[[Words], str]]] = {
    EHANDLER: (errors.HandlerError, _handler),
    EFAIL: (errors.HandlerError, _fail),
    ECAUSALITY: (errors.CausalityError, _causality),
    EPAST: (errors.CausalityError, _past),
    ETIME: (errors.DelayError, _time),
    ETARGET: (errors.TargetError, _target),
    EKIND: (errors.KindError, _kind),
    ELANE: (errors.LaneOverflowError, _lane),
    EWORLD: (errors.WorldOverflowError, _world),
    ESTEP: (errors.StepOverflowError, _step),
    EROUNDS: (errors.RoundsError, _rounds),
    ESEQUENCE: (errors.SequenceOverflowError, _sequence),
}


def exception(spec: Any, fault: Fault, fallback: str = "") -> SeerError:
    """The exception for a fault.

    Args:
        spec: the model's resolved description.
        fault: what happened.
        fallback: the core's own words, for codes that are no fault of the model.
    """
    if fault.code == ENOMEM:
        return errors.OutOfMemoryError("the engine could not get the memory that it needs")
    if fault.code == EBUSY:
        return errors.AlreadySteppingError("this engine is already stepping, in another thread")
    if fault.code == EFORKED:
        return errors.ForkedError(
            "the process was forked while this engine was stepping, so its copy here is unusable: "
            "make a new engine in the child"
        )
    if fault.code == ESTATE:
        return errors.StateError("only reset and close are legal now: an earlier step failed")
    if fault.code not in _TEXT:
        return errors.NativeError(
            f"the native core failed: {fallback or fault.code}", code=fault.code
        )
    kind, text = _TEXT[fault.code]
    words = Words(spec, fault)
    message = f"{spec.name}, world {fault.world}: {text(words)}"
    method = words.method()
    if method is not None:
        message += f" ({method.file}:{method.line})"
    if fault.others:
        message += f"; {fault.others} more in the same step"
    limits = (ELANE, EWORLD, ESTEP, EROUNDS)
    extra: dict[str, Any] = {"capacity": fault.limit} if fault.code in limits else {}
    if fault.code == ETIME:
        extra["value"] = fault.value

    def known(number: int) -> int | None:
        return None if number == NONE else number

    has_kind, has_sweep = fault.kind < len(spec.kinds), fault.sweep < len(spec.sweeps)
    return kind(
        message,
        world=fault.world,
        entity=known(fault.entity),
        source=known(fault.source),
        target=known(fault.target),
        sequence=fault.sequence,
        kind=spec.kinds[fault.kind].name if has_kind else None,
        sweep=spec.sweeps[fault.sweep].name if has_sweep else None,
        round=fault.round,
        time=spec.seconds(fault.time),
        event_time=spec.seconds(fault.event_time),
        limit=fault.limit,
        user_code=fault.user_code,
        others=fault.others,
        **extra,
    )
