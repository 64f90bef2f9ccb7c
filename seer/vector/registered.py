"""Ids that are registered with Gymnasium, and the nearest to one that isn't."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError, UnknownIdError
from ..registry import list as list_ids
from .describe import EnvKind
from .factory import Made, nearest

__all__ = ["anything", "from_spec", "registered"]


def registered(name: str, text: str | None = None) -> Any:
    """The spec of a Gymnasium id; without a version, the newest.

    Args:
        name: the id.
        text: what the user wrote, for the message.

    Raises:
        UnknownIdError: there is none; names the nearest.
    """
    from gymnasium.envs import registration

    spec = registration.registry.get(name)
    if spec is not None:
        return spec
    try:
        namespace, stem, version = registration.parse_env_id(name)
        if version is None:
            newest = registration.find_highest_version(namespace, stem)
            if newest is not None:
                return registration.registry[registration.get_env_id(namespace, stem, newest)]
    except Exception:  # it is no id at all
        pass
    raise _unknown(text or name, name)


def _unknown(text: str, name: str) -> UnknownIdError:
    import gymnasium

    seers = list_ids()
    known = [*seers, *(i.rpartition("_v")[0] for i in seers), *gymnasium.registry]
    folded = {key.lower(): key for key in known}
    near = folded.get(name.lower()) or folded.get(nearest(name.replace(" ", ""), folded) or "")
    versions = [i for i in gymnasium.registry if i.rpartition("-v")[0] == name.rpartition("-v")[0]]
    if name.rpartition("-v")[0] and versions:
        near = versions[-1]
    near = near or _module_meant(text)
    hint = f"; did you mean {near!r}?" if near else ""
    return UnknownIdError(
        f"make_vec: {text!r} is neither an id of seer ({', '.join(seers)}) nor one that is "
        f"registered with Gymnasium{hint} (an id of another package needs that package imported "
        "first, as in 'package:Name-v0'; an environment of your own is named 'module:Class')",
        name=text,
        nearest=near,
    )


def _module_meant(text: str) -> str | None:
    """``"package:module"`` for ``"package.module"``, if there is one."""
    package, dot, name = text.rpartition(".")
    try:
        found = bool(dot) and importlib.util.find_spec(text) is not None
    except (ImportError, ValueError):
        return None
    return f"{package}:{name}" if found else None


def from_spec(spec: Any) -> tuple[Any, str, Any, EnvKind | None]:
    """What to call for a spec, its name, whose signature to check, and its kind.

    Raises:
        ConfigError: it has no entry point.
    """
    from gymnasium.envs.registration import load_env_creator

    entry = spec.entry_point
    if entry is None:
        raise ConfigError(
            f"make_vec: {spec.id!r} is registered without an entry_point, so no single "
            "environment can be made of it"
        )
    if isinstance(entry, str):
        creator = load_env_creator(entry)
        if entry.split(":")[0] == "__main__":  # a worker's main module is another one
            spec = dataclasses.replace(spec, entry_point=creator)
    else:
        creator = entry
    return Made(spec), spec.id, _Signature(creator, spec.kwargs), "gymnasium"


class _Signature:
    """What `gymnasium.make` can be given for one spec, for `inspect.signature`."""

    def __init__(self, creator: Any, given: Mapping[str, Any]) -> None:
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in ("max_episode_steps", "disable_env_checker")
        ]
        try:
            own = inspect.signature(creator).parameters.values()
        except (TypeError, ValueError):
            own = inspect.signature(anything).parameters.values()
        keyword = inspect.Parameter.KEYWORD_ONLY
        mine = [
            p.replace(kind=keyword, default=given.get(p.name, p.default))
            for p in own
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in ("max_episode_steps", "disable_env_checker")
        ]
        rest = [p for p in own if p.kind is p.VAR_KEYWORD]
        self.__signature__ = inspect.Signature([*mine, *extra, *rest])

    def __call__(self) -> None:
        """Never called: only a callable has a signature."""


def anything(**kwargs: Any) -> None:
    """Has the signature of what takes every keyword."""
