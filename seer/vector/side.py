"""What arrays can't carry, as bytes for another process.

Numbers in infos go in columns, arrays of some size beside the pickle (protocol 5), all else in
it. What comes out shares no memory with the bytes.

Layout, little-endian: uint32 how many buffers there are beside the pickle; uint64 the length of
the pickle; uint64 the length of each buffer; the pickle; the buffers.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

from ..errors import ResultError
from .blocks import Block
from .contract import Side

__all__ = ["dumps", "loads"]

_APART = 4096
"""Buffers of fewer bytes stay in the pickle."""


def dumps(side: Side) -> bytes:
    """As bytes.

    Raises:
        ResultError: something in it can be pickled neither by pickle nor by cloudpickle; names
            the environment, the agent and the key.
    """
    block, rest = Block.of(side.infos)
    parts = (
        None if block is None else block.parts(), rest, side.final_infos, side.final_state,
        side.extras, side.slots, side.final_slots, side.objects,
    )  # fmt: skip
    try:
        body, buffers = _pickled(parts, pickle.dumps)
    except Exception:  # pickle passes on whatever an object's own methods raise
        import cloudpickle

        try:
            body, buffers = _pickled(parts, cloudpickle.dumps)
        except Exception as error:
            raise _explained(side, error) from error
    head = struct.pack(
        f"<IQ{len(buffers)}Q", len(buffers), len(body), *[buffer.nbytes for buffer in buffers]
    )
    return b"".join([head, body, *buffers])


def loads(buffer: Any) -> Side:
    """What `dumps` was given; its infos may still be columns.

    Args:
        buffer: bytes or anything like them. Not looked at any more afterwards.
    """
    view = memoryview(buffer).cast("B")
    count, length = struct.unpack_from("<IQ", view)
    sizes = struct.unpack_from(f"<{count}Q", view, 12)
    at = 12 + 8 * count
    body = view[at : at + length]
    at += length
    buffers = []
    for size in sizes:
        buffers.append(bytearray(view[at : at + size]))
        at += size
    side = Side()
    block, side.infos, side.final_infos, *more = pickle.loads(body, buffers=buffers)
    side.final_state, side.extras, side.slots, side.final_slots, side.objects = more
    if block is not None:
        side.columns = [Block(*block)]
    return side


def _pickled(parts: Any, dump: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[memoryview] = []

    def apart(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _APART:
            return True
        buffers.append(raw)
        return False

    return dump(parts, protocol=5, buffer_callback=apart), buffers


def _explained(side: Side, error: Exception) -> Exception:
    import cloudpickle

    for env, name, key, value in _values(side):
        try:
            cloudpickle.dumps(value)
        except Exception as why:
            whose = "" if name is None else f", {name!r}"
            where = "" if key is None else f", key {key!r}"
            return ResultError(
                f"environment {env}{whose}{where}: expected a value that can be pickled, as it "
                f"comes from another process, got {_shown(value)} ({type(why).__name__}: {why})",
                env=env, agent=name, key=key,
            )  # fmt: skip
    return error


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.200}"
    except Exception:
        return f"an object of {type(value)}"


def _values(side: Side) -> Iterator[tuple[int, Any, Any, Any]]:
    """Everything of the environments' own: (environment, name, key, value)."""
    for infos in (side.infos, side.final_infos):
        for env, named in infos.items():
            for name, info in named.items():
                if isinstance(info, dict):
                    for key, value in info.items():
                        yield env, name, key, value
                else:
                    yield env, name, None, info
    for env, state in side.final_state.items():
        yield env, None, "state", state
    for env, extras in side.extras.items():
        for what, values in extras.items():
            for name, value in values.items():
                yield env, name, what, value
    for (what, _, _), cells in side.objects.items():
        for (env, _), value in cells.items():
            yield env, None, what, value
