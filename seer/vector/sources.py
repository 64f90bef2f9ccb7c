"""Where environments come from: ids, modules, classes and functions become factories.

Everything is looked up here, in the process that calls make_vec, and what was found is shipped:
an id that the main script registered exists in no worker.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ..errors import ConfigError, UnknownIdError
from ..registry import Entry, find, is_model, load
from ..registry import list as list_ids
from ..registry import make as make_one
from .describe import EnvKind
from .factory import Factory, Lookup, check_keywords, takes, title
from .registered import anything, from_spec, registered

__all__ = ["Source", "native_id", "plain_name", "resolve"]

_EXPECTED = (
    "make_vec takes an id (\"uav_swarm\", \"CartPole-v1\"), a class or another callable that makes "
    "one environment, a PettingZoo module such as simple_spread_v3, \"module:attribute\", or a "
    "list of callables"
)  # fmt: skip


_VAGUE = ("raw_env", "parallel_env", "env", "lambda")


@dataclasses.dataclass
class Source:
    """What make_vec was given, understood.

    Attributes:
        factories: (N,) one for each environment; the same object where they are alike.
        hint: the kind of the environments where it is certain, else None.
        name: for messages and the repr.
        given_mode: the render mode was passed on to every factory.
    """

    factories: list[Factory]
    hint: EnvKind | None
    name: str
    given_mode: bool = True


def resolve(
    env: Any,
    num_envs: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[Callable[[Any], Any]] = (),
    render_mode: str | None = None,
    own: Sequence[str] = (),
) -> Source:
    """Find out what makes the environments.

    Args:
        env: an id, a callable, a module, ``"module:attribute"`` or a list of these.
        num_envs: how many, 1 by default; of a list its length.
        kwargs: for the factories.
        wrappers: applied to each single environment, in order.
        render_mode: passed to the factories that take one.
        own: the keywords of make_vec, for messages.

    Raises:
        UnknownIdError: a string that is neither an id nor a module's attribute.
        ConfigError: something else that is no source, or keywords that it doesn't take.
    """
    kwargs = dict(kwargs or {})
    if isinstance(env, (list, tuple)):
        if not env:
            raise ConfigError("make_vec: an empty list of environments; give at least one factory")
        if num_envs is not None and num_envs != len(env):
            raise ConfigError(
                f"make_vec: num_envs={num_envs}, but the list has {len(env)} factories; leave "
                "num_envs out"
            )
        parts: dict[int, tuple[Factory, EnvKind | None, bool]] = {}
        for k, item in enumerate(env):
            if isinstance(item, (list, tuple)):
                raise ConfigError(f"make_vec: entry {k} of the list is a list itself; flatten it")
            if id(item) not in parts:  # the same factory many times is resolved once
                parts[id(item)] = _one(item, kwargs, wrappers, render_mode, own)
        found = [parts[id(item)] for item in env]
        hints = {hint for _, hint, _ in found}
        names = list(dict.fromkeys(factory.name for factory, _, _ in found))
        return Source(
            [factory for factory, _, _ in found],
            hints.pop() if len(hints) == 1 else None,
            names[0] if len(names) == 1 else f"{names[0]}, …",
            all(passed for _, _, passed in found),
        )
    factory, hint, passed = _one(env, kwargs, wrappers, render_mode, own)
    return Source([factory] * (1 if num_envs is None else num_envs), hint, factory.name, passed)


def native_id(env: Any) -> bool:
    """Whether it names, or is, a model that runs on the engine."""
    if is_model(env):
        return True
    if isinstance(env, ModuleType):  # one of ours, such as seer.envs.uav_swarm_v0
        makers = {find(name).env: bool(find(name).model) for name in list_ids()}
        return makers.get(f"{env.__name__}:parallel_env", False)
    if not isinstance(env, str):
        return False
    if ":" in env:
        module, _, attribute = env.partition(":")
        return _identifiers(module, attribute) and _is_model_target(env)
    entry = _seers(env)
    return entry is not None and bool(entry.model)


def _is_model_target(target: str) -> bool:
    try:
        return is_model(load(target))
    except ConfigError:
        return False


def _one(
    env: Any,
    kwargs: dict[str, Any],
    wrappers: Sequence[Callable[[Any], Any]],
    render_mode: str | None,
    own: Sequence[str],
) -> tuple[Factory, EnvKind | None, bool]:
    """The factory, its kind where that is certain, and whether it was given the render mode."""
    make, name, signature, hint = _found(env)
    kwargs = dict(kwargs)
    passed = True
    if render_mode is not None and "render_mode" not in kwargs:
        passed = takes(signature, "render_mode")
        if passed:
            kwargs["render_mode"] = render_mode
    check_keywords(signature, kwargs, name, own)
    names = (*kwargs, *own)
    factory = Factory(make, kwargs, wrappers, name, [n for n in names if n not in kwargs])
    return factory, None if wrappers else hint, passed


def _found(env: Any) -> tuple[Any, str, Any, EnvKind | None]:
    """What to call, its name, whose signature to check, and the kind where it is certain."""
    import gymnasium

    if isinstance(env, str):
        return _from_text(env)
    if isinstance(env, gymnasium.envs.registration.EnvSpec):
        return from_spec(env)
    if isinstance(env, ModuleType):
        return _from_module(env)
    if is_model(env):
        import functools

        return functools.partial(make_one, env), title(env), anything, "parallel"
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ConfigError(
            f"make_vec: {type(env).__name__} is a vector of environments already; give make_vec "
            "what makes a single one"
        )
    stepped = hasattr(env, "reset") and hasattr(env, "step")
    if stepped and not isinstance(env, type):
        name = _maker_of(getattr(env, "unwrapped", env))
        raise ConfigError(
            f"make_vec: got an environment, {name}, where what makes one is needed, since every "
            f"copy must be an object of its own; write make_vec(lambda: {name}(…), num_envs=…)"
        )
    if callable(env):
        name = title(env)
        return env, "lambda" if name.endswith("<lambda>") else name, env, None
    _refuse_stale(env)
    raise ConfigError(f"{_EXPECTED}; got {env!r}")


def _refuse_stale(value: Any) -> None:
    """Pass on what PettingZoo says about a version that is gone; only calling it tells."""
    if type(value).__name__ == "DeprecatedModule":
        try:
            value.env()
        except ImportError as error:
            raise ConfigError(f"make_vec: {error}") from None


def _maker_of(env: Any) -> str:
    """What one would write to make such an environment."""
    name = type(env).__name__
    metadata = getattr(env, "metadata", None)
    known = metadata.get("name") if isinstance(metadata, Mapping) else None
    if name in _VAGUE and isinstance(known, str):  # as PettingZoo calls every class
        return f"{known}.parallel_env"
    return name


def plain_name(name: str, metadata: Mapping[str, Any]) -> str:
    """A source's name, or the environments' own where that tells more."""
    vague = name in _VAGUE or ("." in name and ":" not in name)
    known = metadata.get("name")
    return known if vague and isinstance(known, str) else name


def _from_text(text: str) -> tuple[Any, str, Any, EnvKind | None]:
    module, colon, attribute = text.partition(":")
    if not colon:
        entry = _seers(text)
        if entry is None:
            return from_spec(registered(text))
        import functools

        return functools.partial(make_one, entry.id), entry.id, load(entry.env), None
    if not _identifiers(module, attribute) or re.search(r"[-/]", attribute):
        _import(module, text)
        return from_spec(registered(attribute, text))
    try:
        value = load(text)
    except ConfigError as error:
        try:  # an id without a version, in its module
            spec = registered(attribute, text)
        except UnknownIdError:
            raise error from None
        return from_spec(spec)
    if isinstance(value, ModuleType):
        return _from_module(value)
    _refuse_stale(value)
    if isinstance(value, str) or not callable(value):
        raise ConfigError(f"make_vec: {text!r} must make an environment, but is {value!r}")
    make: Any
    make, name, signature, hint = _found(value)
    if "." not in attribute and make is value:
        make = Lookup(sys.modules[module], attribute)
    return make, text if name == "lambda" else name, signature, hint


def _seers(name: str) -> Entry | None:
    try:
        return find(name)
    except UnknownIdError:
        return None


def _identifiers(module: str, attribute: str) -> bool:
    return all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def _import(module: str, text: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise UnknownIdError(
                f"make_vec: {text!r}: there is no module {error.name!r}", name=text, nearest=None
            ) from None
        raise


# ---- PettingZoo ----------------------------------------------------------------------


def _from_module(module: ModuleType) -> tuple[Any, str, Any, EnvKind | None]:
    name = module.__name__.rpartition(".")[2]
    for attribute in ("parallel_env", "env", "raw_env"):
        make = getattr(module, attribute, None)
        if callable(make):
            break
    else:
        have = [n for n in dir(module) if not n.startswith("_")]
        inner = [n for n in have if isinstance(getattr(module, n), ModuleType)
                 and hasattr(getattr(module, n), "parallel_env")]  # fmt: skip
        hint = f"; it holds {', '.join(inner[:6])}, one of which may be meant" if inner else ""
        raise ConfigError(
            f"make_vec: module {module.__name__!r} has neither parallel_env nor env nor raw_env"
            f"{hint} (it has {', '.join(have[:8]) or 'nothing'})"
        )
    # PettingZoo's functions take anything and pass it on to the class raw_env.
    raw = getattr(module, "raw_env", None)
    return Lookup(module, attribute), name, raw if callable(raw) else make, None
