"""The errors that seer raises on purpose.

Every class is a `SeerError` and also the built-in that fits, so that both
``except seer.SeerError`` and, say, ``except ValueError`` work. A message says what
was expected and what came; what a program may want to look at again (which world,
which entity, when, which limit) is an attribute as well.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ActionError",
    "AlreadySteppingError",
    "CapacityError",
    "CausalityError",
    "ClosedError",
    "CompileError",
    "ConfigError",
    "DelayError",
    "FaultError",
    "ForkedError",
    "HandlerError",
    "KindError",
    "LaneOverflowError",
    "MissingDependencyError",
    "ModelError",
    "NativeError",
    "OutOfMemoryError",
    "ResultError",
    "RoundsError",
    "SeerError",
    "SequenceOverflowError",
    "SnapshotError",
    "StateError",
    "StepOverflowError",
    "StepTimeoutError",
    "TargetError",
    "UnknownAgentError",
    "UnknownIdError",
    "VerifyError",
    "WorkerDiedError",
    "WorldOverflowError",
]


class SeerError(Exception):
    """Base of all errors of this package.

    Args:
        message: one or more sentences for people.
        **fields: facts for programs; each becomes an attribute.
    """

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


# ---- before anything runs ----------------------------------------------------


class ConfigError(SeerError, ValueError):
    """A parameter, an option or a pool configuration is not legal."""


class ModelError(ConfigError):
    """A model's declaration breaks a rule. Names the method, its file and line.

    Attributes:
        model: name of the model's class.
        method: name of the method, where it is about one.
        file: the file that declares it.
        line: the line in that file.
    """

    model: str | None = None
    method: str | None = None
    file: str | None = None
    line: int | None = None


class CompileError(ModelError):
    """A handler could not be compiled. Carries the same attributes."""


class UnknownIdError(SeerError, KeyError):
    """No environment or benchmark has this id.

    Attributes:
        name: the id that was asked for.
        nearest: the known id closest to it, or None.
    """

    name: str | None = None
    nearest: str | None = None


class MissingDependencyError(SeerError, ImportError):
    """An optional package is needed and not installed.

    Attributes:
        package: what is missing.
        extra: the extra of this distribution that brings it.
    """

    package: str | None = None
    extra: str | None = None


class NativeError(SeerError, RuntimeError):
    """The compiled core is missing, of another version, or failed without more to tell.

    Attributes:
        code: the core's error code, where there is one.
    """

    code: int | None = None


class OutOfMemoryError(NativeError, MemoryError):
    """The core could not get the memory it asked for."""


# ---- between steps -------------------------------------------------------------


class StateError(SeerError, RuntimeError):
    """The call is not legal now, such as a step before the first reset."""


class ClosedError(StateError):
    """The object has been closed."""


class AlreadySteppingError(StateError):
    """Another thread is inside this engine's reset or step."""


class ForkedError(StateError):
    """The process was forked while this engine was stepping; the copy is unusable."""


class SnapshotError(SeerError, ValueError):
    """A saved state does not fit: of another model, of another format, or damaged."""


class ActionError(SeerError, ValueError):
    """An action is not legal: wrong shape or dtype, NaN, out of range, missing or surplus.

    Attributes:
        world: index of the world.
        agent: name (or index) of the agent.
    """

    world: int | None = None
    agent: str | int | None = None


class UnknownAgentError(SeerError, KeyError):
    """No agent has this name.

    Attributes:
        agent: the name that came.
        nearest: the known name closest to it, or None.
    """

    agent: str | None = None
    nearest: str | None = None


class ResultError(SeerError, ValueError):
    """What an environment returned is not legal: a shape, a dtype, a reward that is no number.

    Attributes:
        env: index of the environment.
        agent: name of the agent.
    """

    env: int | None = None
    agent: str | None = None


class WorkerDiedError(SeerError, RuntimeError):
    """A worker process ended by itself: killed, out of memory, or by an exit.

    Attributes:
        worker: its number.
        pid: its process id.
        envs: indices of the environments that lived in it.
        exitcode: its exit status; negative: the signal that ended it; None: unknown.
    """

    worker: int | None = None
    pid: int | None = None
    envs: tuple[int, ...] = ()
    exitcode: int | None = None


class StepTimeoutError(SeerError, TimeoutError):
    """Environments did not answer within the time that the caller allowed.

    Attributes:
        envs: indices of the environments that did not answer.
        timeout: what was allowed, s.
    """

    envs: tuple[int, ...] = ()
    timeout: float | None = None


class VerifyError(SeerError, AssertionError):
    """Two runs that had to be equal to the bit were not."""


# ---- while a model runs ----------------------------------------------------------


class FaultError(SeerError, RuntimeError):
    """Something a model did while it ran: the first fault by (world, time, entity).

    After it only `reset` and `close` are legal on that engine.

    Attributes:
        world, entity: where it happened.
        source, target, sequence: of the event it is about.
        kind: name of that event's kind, None when it is about a sweep.
        sweep: name of the sweep, None when it is about an event.
        round: the event's round.
        time: when it happened, s.
        event_time: time of the event that was refused, s.
        limit: the capacity (events or rounds) or lookahead (ticks) that was passed.
        user_code: what the model gave to ``ctx.fail``.
        others: how many more faults that step had.
    """

    world: int | None = None
    entity: int | None = None
    source: int | None = None
    target: int | None = None
    sequence: int | None = None
    kind: str | None = None
    sweep: str | None = None
    round: int | None = None
    time: float | None = None
    event_time: float | None = None
    limit: int | None = None
    user_code: int | None = None
    others: int = 0


class HandlerError(FaultError):
    """A handler or sweep raised, returned failure, or called ``ctx.fail``."""


class CausalityError(FaultError, ValueError):
    """An event was sent to another entity sooner than the lookahead, or into the past."""


class DelayError(FaultError, ValueError):
    """A delay is not finite or lies beyond the last tick.

    Attributes:
        value: the delay, s.
    """

    value: float | None = None


class TargetError(FaultError, IndexError):
    """An event was sent to an entity that does not exist."""


class KindError(FaultError, LookupError):
    """An event was sent whose kind does not exist."""


class CapacityError(FaultError):
    """A bound of the model was passed.

    Attributes:
        capacity: the bound.
    """

    capacity: int | None = None


class LaneOverflowError(CapacityError):
    """More events are pending for one entity than `lane_capacity`."""


class WorldOverflowError(CapacityError):
    """More events are pending in one world than `world_capacity`."""


class StepOverflowError(CapacityError):
    """One step handled more events than `step_capacity`."""


class RoundsError(CapacityError):
    """Events at one instant caused each other for more than `max_rounds` rounds."""


class SequenceOverflowError(FaultError, OverflowError):
    """One entity sent 2**32 - 1 events in an episode."""
