"""The facts behind `seer info`."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from . import hardware

__all__ = ["facts"]

_PACKAGES = ("numpy", "numba", "llvmlite", "cffi", "gymnasium", "pettingzoo")


def facts() -> dict[str, dict[str, Any]]:
    """Machine, build and versions, by section; values are numbers, texts or lists."""
    machine = hardware.hardware()
    return {
        "machine": {
            "cpu": machine.cpu,
            "system": f"{machine.system}, {machine.architecture}",
            "cpus": machine.logical_cpus,
            "in the affinity mask": machine.affinity,
            "cpu quota": machine.quota,
            "usable threads": machine.usable,
            "threads per core": machine.threads_per_core,
            "numa nodes": machine.numa_nodes,
            "memory": _bytes(machine.memory),
            "caches": [
                f"L{c.level} {c.kind} {_bytes(c.size)}, shared by {c.shared_by}"
                for c in machine.caches
            ],
        },
        "build": _build(),
        "versions": {
            "seer": _package("seer-marl"),
            "python": sys.version.split()[0],
            "implementation": platform.python_implementation(),
            **{name: _package(name) for name in _PACKAGES},
        },
    }


def _build() -> dict[str, Any]:
    from .cache import directory
    from .errors import NativeError

    try:
        from . import _native
        from ._native import _core
    except NativeError as error:
        return {"core": f"not loaded: {error}"}
    return {
        "core": str(_core.__file__),
        "struct layout": int(_native.lib.SEER_LAYOUT),
        "most threads": int(_native.lib.SEER_MAX_THREADS),
        "compiled handlers": str(directory()),
        "event": f"{_native.ffi.sizeof('seer_event')} bytes",
    }


def _package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
