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
    from .statistics import RecordEpisodeStatistics
    from .torch import TorchVectorEnv
    from .wrappers import (
        AgentOneHot,
        FrameStack,
        NormalizeObservation,
        NormalizeReward,
        ObservationWrapper,
        VectorWrapper,
    )

__all__ = [
    "AgentOneHot",
    "AsyncFlatVectorEnv",
    "DictVectorEnv",
    "FlatVectorEnv",
    "FrameStack",
    "Group",
    "ListVectorEnv",
    "NormalizeObservation",
    "NormalizeReward",
    "ObservationWrapper",
    "ProcessConfig",
    "RecordEpisodeStatistics",
    "StackedVectorEnv",
    "TorchVectorEnv",
    "VecSpec",
    "VectorEnv",
    "VectorWrapper",
    "make_vec",
]

_HOME = {
    **dict.fromkeys(("AsyncFlatVectorEnv", "FlatVectorEnv"), "flat"),
    **dict.fromkeys(("Group", "VecSpec"), "contract"),
    **dict.fromkeys(
        ("DictVectorEnv", "ListVectorEnv", "StackedVectorEnv", "VectorEnv"), "layouts"
    ),
    **dict.fromkeys(
        (
            "AgentOneHot", "FrameStack", "NormalizeObservation", "NormalizeReward",
            "ObservationWrapper", "VectorWrapper",
        ),
        "wrappers",
    ),
    "ProcessConfig": "config",
    "RecordEpisodeStatistics": "statistics",
    "TorchVectorEnv": "torch",
    "make_vec": "make",
}  # fmt: skip
"""Public name -> module that has it."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
