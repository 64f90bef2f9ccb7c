"""What a worker takes over from its caller: directory, path, environment, CPUs, registrations.

A worker may be the fork of a process that was started long ago, so what the caller has changed
since is sent to it. How many threads its numeric libraries use is its own matter.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

__all__ = ["THREAD_VARIABLES", "limit_threads", "look_around", "settle", "trim"]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip
"""Where numeric libraries look, when they are loaded, for how many threads they may use."""


def look_around() -> dict[str, Any]:
    """The caller's surroundings as they are now."""
    affinity = getattr(os, "sched_getaffinity", None)
    try:
        directory: str | None = os.getcwd()
    except OSError:  # it was removed
        directory = None
    return {
        "environ": dict(os.environ),
        "directory": directory,
        "path": [entry for entry in sys.path if type(entry) is str],
        "argv": list(sys.argv),
        "cpus": None if affinity is None else sorted(affinity(0)),
    }


def registrations() -> list[Any]:
    """The caller's own registered Gymnasium specs."""
    module = sys.modules.get("gymnasium.envs.registration")
    if module is None:
        return []
    return [spec for spec in module.registry.values() if not _comes_with_gymnasium(spec)]


def _comes_with_gymnasium(spec: Any) -> bool:
    entry = spec.entry_point
    return isinstance(entry, str) and entry.startswith("gymnasium.")


def settle(around: dict[str, Any]) -> None:
    """Take the caller's surroundings over."""
    for name in set(os.environ) - set(around["environ"]):
        del os.environ[name]
    for name, value in around["environ"].items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if around["directory"] is not None:
        with contextlib.suppress(OSError):
            os.chdir(around["directory"])
    sys.path[:] = around["path"]
    sys.argv[:] = around["argv"]
    importlib.invalidate_caches()  # modules may have been written since
    if around["cpus"] is not None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, around["cpus"])


def register(specs: list[Any]) -> None:
    """Make the caller's registered specs known here."""
    if specs:
        from gymnasium.envs.registration import registry

        for spec in specs:
            if registry.get(spec.id) != spec:
                registry[spec.id] = spec


def limit_threads(count: int, before: int | None = None) -> None:
    """Let numeric libraries use at most `count` threads, those to come and those loaded.

    A lower number that the user has set stays.

    Args:
        count: at least 1.
        before: what the libraries that are loaded were limited to when they were; None: not.
    """
    for name in THREAD_VARIABLES:
        given = os.environ.get(name, "").strip()
        if not given.isdecimal() or not 0 < int(given) <= count:
            os.environ[name] = str(count)
    least = min(count, int(os.environ[THREAD_VARIABLES[0]]))
    if least != before:
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits

            threadpool_limits(limits=least)


def trim() -> None:
    """Give back what importing and compiling have freed, where the C library knows how."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
