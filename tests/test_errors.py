import copy
import pickle

import pytest

from seer import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.SeerError)
]
BUILT_IN = {
    "ConfigError": ValueError,
    "ModelError": ValueError,
    "CompileError": ValueError,
    "UnknownIdError": KeyError,
    "UnknownAgentError": KeyError,
    "MissingDependencyError": ImportError,
    "NativeError": RuntimeError,
    "OutOfMemoryError": MemoryError,
    "StateError": RuntimeError,
    "ClosedError": RuntimeError,
    "AlreadySteppingError": RuntimeError,
    "ForkedError": RuntimeError,
    "SnapshotError": ValueError,
    "ActionError": ValueError,
    "VerifyError": AssertionError,
    "FaultError": RuntimeError,
    "HandlerError": RuntimeError,
    "CausalityError": ValueError,
    "DelayError": ValueError,
    "ResultError": ValueError,
    "StepTimeoutError": TimeoutError,
    "TargetError": IndexError,
    "WorkerDiedError": RuntimeError,
    "KindError": LookupError,
    "CapacityError": RuntimeError,
    "LaneOverflowError": RuntimeError,
    "WorldOverflowError": RuntimeError,
    "StepOverflowError": RuntimeError,
    "RoundsError": RuntimeError,
    "SequenceOverflowError": OverflowError,
}


def test_errors_every_class_is_listed_and_documented():
    assert sorted(c.__name__ for c in CLASSES) == sorted(errors.__all__)
    assert all(c.__doc__ for c in CLASSES)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_errors_class_is_also_the_fitting_built_in(name):
    assert issubclass(getattr(errors, name), BUILT_IN[name])


def test_errors_only_the_base_has_no_built_in_listed():
    assert {c.__name__ for c in CLASSES} - set(BUILT_IN) == {"SeerError"}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_errors_message_comes_out_as_it_went_in(cls):
    assert str(cls("no such thing: 'x'")) == "no such thing: 'x'"
    assert str(cls()) == ""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("via", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_errors_survive_pickle_and_copy_with_their_fields(cls, via):
    again = via(cls("text", world=3, entity=5))
    assert type(again) is cls
    assert (str(again), again.world, again.entity) == ("text", 3, 5)


def test_errors_fields_default_to_none_and_belong_to_the_instance():
    first = errors.LaneOverflowError("full", world=1, entity=2, kind="ping", capacity=8)
    second = errors.LaneOverflowError("full")
    assert (first.world, first.entity, first.kind, first.capacity) == (1, 2, "ping", 8)
    assert (second.world, second.entity, second.kind, second.capacity) == (None, None, None, None)
    assert second.others == 0


def test_errors_closed_is_a_state_error():
    for cls in (errors.ClosedError, errors.AlreadySteppingError, errors.ForkedError):
        assert issubclass(cls, errors.StateError)
