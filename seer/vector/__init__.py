"""Vectors of environments: native worlds on threads, anyone's environment over shared memory.

`make_vec` makes them. Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ProcessConfig
    from .contract import Group, VecSpec
    from .flat import AsyncFlatVectorEnv, FlatVectorEnv
    from .layouts import DictVectorEnv, ListVectorEnv, StackedVectorEnv, VectorEnv
    from .make import make_vec

__all__ = [
    "AsyncFlatVectorEnv",
    "DictVectorEnv",
    "FlatVectorEnv",
    "Group",
    "ListVectorEnv",
    "ProcessConfig",
    "StackedVectorEnv",
    "VecSpec",
    "VectorEnv",
    "make_vec",
]

_HOME = {
    "AsyncFlatVectorEnv": "flat",
    "DictVectorEnv": "layouts",
    "FlatVectorEnv": "flat",
    "Group": "contract",
    "ListVectorEnv": "layouts",
    "ProcessConfig": "config",
    "StackedVectorEnv": "layouts",
    "VecSpec": "contract",
    "VectorEnv": "layouts",
    "make_vec": "make",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
