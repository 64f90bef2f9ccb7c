"""The compiled core, loaded: `ffi`, `lib`, and `check` for return codes.

Nothing above this package touches cffi except the engine and the compiler of handlers.
"""

from __future__ import annotations

from typing import Any

from ..errors import (
    AlreadySteppingError,
    CausalityError,
    ConfigError,
    DelayError,
    ForkedError,
    HandlerError,
    KindError,
    LaneOverflowError,
    NativeError,
    OutOfMemoryError,
    RoundsError,
    SeerError,
    SequenceOverflowError,
    StateError,
    StepOverflowError,
    TargetError,
    WorldOverflowError,
)

try:
    from ._core import ffi, lib
except ImportError as error:
    raise NativeError(
        "the compiled core of seer (seer/_native/_core) could not be loaded: "
        f"{error}. In a checkout run `make build` first; with pip, reinstall seer-marl."
    ) from error

__all__ = ["LAYOUT", "check", "error_class", "ffi", "lib"]

LAYOUT = 1
"""The layout of the core's structs that this package was written for."""

if lib.SEER_LAYOUT != LAYOUT:
    raise NativeError(
        f"the compiled core has struct layout {lib.SEER_LAYOUT}, this package needs {LAYOUT}: "
        "rebuild it (`make build`)"
    )

_CLASSES: dict[int, type[SeerError]] = {
    lib.SEER_ENOMEM: OutOfMemoryError,
    lib.SEER_EINVAL: ConfigError,
    lib.SEER_EBUSY: AlreadySteppingError,
    lib.SEER_EFORKED: ForkedError,
    lib.SEER_ESTATE: StateError,
    lib.SEER_EHANDLER: HandlerError,
    lib.SEER_EFAIL: HandlerError,
    lib.SEER_ECAUSALITY: CausalityError,
    lib.SEER_EPAST: CausalityError,
    lib.SEER_ETIME: DelayError,
    lib.SEER_ETARGET: TargetError,
    lib.SEER_EKIND: KindError,
    lib.SEER_ELANE: LaneOverflowError,
    lib.SEER_EWORLD: WorldOverflowError,
    lib.SEER_ESTEP: StepOverflowError,
    lib.SEER_EROUNDS: RoundsError,
    lib.SEER_ESEQUENCE: SequenceOverflowError,
}


def error_class(code: int) -> type[SeerError]:
    """The exception class of a code of ``enum seer_error``, whatever its sign."""
    return _CLASSES.get(abs(code), NativeError)


def check(code: int, **fields: Any) -> int:
    """Turn a negative return code into the matching error; hand back the others.

    Args:
        code: what a function of the core returned.
        **fields: attributes for the error.

    Raises:
        SeerError: `code` is negative; the class tells which code.
    """
    if code < 0:
        text = ffi.string(lib.seer_strerror(-code)).decode()
        raise error_class(code)(text, code=-code, **fields)
    return code
