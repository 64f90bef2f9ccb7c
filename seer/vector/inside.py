"""Questions that are answered in the process where an environment lives."""

from __future__ import annotations

from typing import Any

__all__ = ["attribute", "is_wrapped"]


def attribute(env: Any, name: str) -> Any:
    """An attribute as it is, looked for through wrappers; a method is not called.

    Raises:
        AttributeError: neither the environment nor a wrapper has it.
    """
    while True:
        try:
            return getattr(env, name)
        except AttributeError:
            inner = env.__dict__.get("env")
            if inner is None or inner is env:
                raise
            env = inner


def is_wrapped(env: Any, wrapper: type) -> bool:
    """Whether one of an environment's wrappers is a `wrapper`."""
    seen: set[int] = set()
    while id(env) not in seen:
        seen.add(id(env))
        inner = getattr(env, "__dict__", {}).get("env")
        if inner is None:
            return False
        if isinstance(env, wrapper):
            return True
        env = inner
    return False
