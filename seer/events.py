"""The event record as numpy sees it, and the bytes of its payload.

An event is 32 bytes (``seer_event`` in ``native/include/seer.h``). Its payload is the kind's
fields, packed in order without gaps: up to 8 bytes travel in the record (a narrow kind), up to 40
beside it (a wide one). The events of one entity are handled in the order of :func:`order_key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

NARROW_BYTES = 8
WIDE_BYTES = 40

#: One event, byte for byte as the native core keeps it.
EVENT = np.dtype(
    {
        "names": ["time", "source", "sequence", "target", "kind", "round", "payload"],
        "formats": ["<i8", "<u4", "<u4", "<u4", "<u2", "<u2", "<u8"],
        "offsets": [0, 8, 12, 16, 20, 22, 24],
        "itemsize": 32,
    }
)

#: The pending events of some worlds: what ``state_dict`` holds of an event.
RECORD = np.dtype([("event", EVENT), ("wide", f"V{WIDE_BYTES}")])


def payload_dtype(fields: Iterable[tuple[str, Any]]) -> np.dtype[Any]:
    """The layout of a kind's payload: its fields in order, without gaps.

    Args:
        fields: (name, dtype) of each field.

    Returns:
        A structured dtype; its ``itemsize`` is 0 for a kind without fields.
    """
    return np.dtype([(name, np.dtype(kind)) for name, kind in fields])


def stored(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value as a column or a payload stores it.

    Integers wrap and floats are cut off, as C converts them; a float that is too large for an
    integer becomes the nearest that fits, and one that is no number 0.

    Args:
        value: a number, or an array of them.
        dtype: of the column or field.

    Returns:
        An array of that dtype, of the value's shape.
    """
    given = np.asarray(value)
    if given.dtype.kind != "f" or dtype.kind not in "iu":
        return given.astype(dtype, casting="unsafe")
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    whole = [
        0 if x != x else low if x <= low else high if x >= high else int(x)
        for x in given.astype(np.float64).ravel().tolist()
    ]
    return np.array(whole, dtype).reshape(given.shape)


def pack(layout: np.dtype[Any], values: Sequence[Any], size: int) -> bytes:
    """Lay out a kind's field values as the native core carries them.

    Args:
        layout: of :func:`payload_dtype`.
        values: one a field, in order; converted as a C assignment would.
        size: :data:`NARROW_BYTES` or :data:`WIDE_BYTES`.

    Returns:
        ``size`` bytes, zero past the last field.
    """
    raw = bytearray(size)
    offset = 0
    names = layout.names or ()
    for name, value in zip(names, values, strict=True):
        kind = layout[name]
        data = stored(value, kind).tobytes()
        raw[offset : offset + len(data)] = data
        offset += len(data)
    return bytes(raw)


def unpack(layout: np.dtype[Any], payload: bytes) -> tuple[Any, ...]:
    """The field values in a payload, as numpy scalars of their declared dtypes."""
    if not layout.names:
        return ()
    return tuple(np.frombuffer(payload, layout, 1)[0])


def order_key(event: np.void) -> tuple[int, int, int, int]:
    """The place of an event among its entity's: (time, round, source, sequence)."""
    return (int(event["time"]), int(event["round"]), int(event["source"]), int(event["sequence"]))
