"""seer: an event engine for multi-agent reinforcement learning.

A step of an environment is a bounded stream of timestamped events per entity; whatever is
causally independent runs in parallel, and the results are the same on any number of threads.

    >>> import seer
    >>> env = seer.make("uav_swarm", drones=64)       # a PettingZoo ParallelEnv
    >>> observations, infos = env.reset(seed=7)
    >>> vec = seer.make_vec("uav_swarm", num_envs=32, drones=64)   # 32 of them in step

Names are loaded when they are first used, so that importing this package stays quick.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, math, vector
    from .check import check
    from .engine import Engine
    from .errors import SeerError
    from .evaluate import evaluate
    from .model import (
        EventModel,
        action,
        column,
        event,
        grid,
        observation,
        on,
        param,
        reset,
        reward,
        sweep,
        terminated,
        total,
    )
    from .registry import list, make
    from .types import PoolConfig
    from .vector.make import make_vec
    from .verify import verify

__all__ = [
    "Engine",
    "EventModel",
    "PoolConfig",
    "SeerError",
    "__version__",
    "action",
    "check",
    "column",
    "errors",
    "evaluate",
    "event",
    "grid",
    "list",
    "make",
    "make_vec",
    "math",
    "observation",
    "on",
    "param",
    "reset",
    "reward",
    "sweep",
    "terminated",
    "total",
    "vector",
    "verify",
]

_MODEL = (
    "EventModel action column event grid observation on param reset reward sweep terminated total"
)
# Public name -> module that has it; None: the name is a module itself.
_HOME: dict[str, str | None] = {
    **dict.fromkeys(_MODEL.split(), "model"),
    "Engine": "engine",
    "PoolConfig": "types",
    "SeerError": "errors",
    "check": "check",
    "errors": None,
    "evaluate": "evaluate",
    "list": "registry",
    "make": "registry",
    "make_vec": "vector.make",
    "math": None,
    "vector": None,
    "verify": "verify",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name not in _HOME:
        raise AttributeError(f"module 'seer' has no attribute {name!r}")
    elif (home := _HOME[name]) is None:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> Any:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("seer-marl")
    except PackageNotFoundError:  # a checkout on the path, never installed
        return "0+unknown"


class _Package(ModuleType):
    """Keeps `seer.check`, `seer.evaluate` and `seer.verify` functions.

    Importing the modules of these names would otherwise put the modules in their place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOME.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        # Picklers know plain modules only, and what a script defines may well use this one.
        return importlib.import_module, (__name__,)


sys.modules[__name__].__class__ = _Package


def _announce() -> None:
    from .gymnasium_ids import announce

    announce()


_announce()
