"""Ids of environments, and `make`.

The table names classes as strings, so that listing environments imports none of them. An id
ends in its version; the name without it means the newest.
"""

from __future__ import annotations

import builtins
import difflib
import importlib
import inspect
import re
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError, SeerError, UnknownIdError

__all__ = ["Entry", "find", "is_model", "list", "load", "make", "register"]

_ID = re.compile(r"(?P<name>[a-z][a-z0-9_]*)_v(?P<version>\d+)")


@dataclass(frozen=True)
class Entry:
    """One environment.

    Args:
        id: name and version, such as ``uav_swarm_v0``.
        env: ``"module:attribute"`` of a function that makes a PettingZoo ParallelEnv.
        model: the same of a function that takes the parameters and gives its
            `seer.EventModel`; "" where it does not run on the engine.
        policies: name -> the same of a function that takes the model and gives a policy:
            observations (..., observation) -> actions (..., action), any leading axes.
        summary: one line.
    """

    id: str
    env: str
    model: str = ""
    policies: tuple[tuple[str, str], ...] = ()
    summary: str = ""

    @property
    def name(self) -> str:
        """The id without its version."""
        return _split(self.id)[0]

    @property
    def version(self) -> int:
        """The number at the end of the id."""
        return _split(self.id)[1]


_TABLE: dict[str, Entry] = {}


def register(entry: Entry) -> None:
    """Make an environment known to `make`, `list` and the command line.

    Raises:
        ConfigError: the id is malformed or taken, or a target is not ``"module:attribute"``.
    """
    _split(entry.id)
    if entry.id in _TABLE and _TABLE[entry.id] != entry:
        raise ConfigError(f"the id {entry.id!r} is taken, by {_TABLE[entry.id].env}")
    for target in (entry.env, *filter(None, [entry.model]), *(t for _, t in entry.policies)):
        if not re.fullmatch(r"[\w.]+:[\w.]+", target):
            raise ConfigError(f"{entry.id}: expected 'module:attribute', got {target!r}")
    _TABLE[entry.id] = entry


def list() -> builtins.list[str]:
    """The ids of all environments, in order, every version."""
    return sorted(_TABLE, key=_split)


def find(name: str) -> Entry:
    """The entry of an id, or of the newest version of a name.

    Raises:
        UnknownIdError: there is none; names the nearest.
    """
    if name in _TABLE:
        return _TABLE[name]
    versions = [entry for entry in _TABLE.values() if entry.name == name]
    if versions:
        return max(versions, key=lambda entry: entry.version)
    raise _unknown(name)


def make(name: Any, /, **kwargs: Any) -> Any:
    """Make an environment.

    Args:
        name: an id such as ``"uav_swarm_v0"``; ``"uav_swarm"``, for the newest version;
            ``"module:attribute"``, of a `seer.EventModel` class or of a function that makes
            an environment; or such a class or a model itself.
        **kwargs: parameters of the model (``seer envs ID`` lists them), and options of
            `seer.env.ParallelEnv`: ``horizon`` (400 steps), ``render_mode`` (None, "human",
            "rgb_array"), ``strict_actions`` (False: clip), ``pool`` ("auto") and ``compiled``
            (True).

    Returns:
        A PettingZoo ``ParallelEnv``.

    Raises:
        UnknownIdError: no environment has this id.
        ConfigError: a parameter is unknown or out of range.
    """
    if is_model(name):
        return _wrap(name, kwargs)
    if not isinstance(name, str):
        raise ConfigError(
            "make: expected an id such as 'uav_swarm_v0' or a seer.EventModel, got "
            f"{type(name).__name__}"
        )
    factory = load(name) if ":" in name else load(find(name).env)
    if is_model(factory):
        return _wrap(factory, kwargs)
    try:
        inspect.signature(factory).bind(**kwargs)
    except (TypeError, ValueError) as error:
        given = ", ".join(kwargs) or "no arguments"
        raise ConfigError(
            f"make: {name!r} is no seer.EventModel, and can't be called with {given}: {error}"
        ) from None
    return factory(**kwargs)


def _wrap(model: Any, kwargs: dict[str, Any]) -> Any:
    """A model as an environment: what is no option of the environment is a parameter."""
    from .env import ParallelEnv

    known = set(inspect.signature(ParallelEnv.__init__).parameters) - {"self", "model"}
    options = {key: value for key, value in kwargs.items() if key in known}
    params = {key: value for key, value in kwargs.items() if key not in known}
    if isinstance(model, type):
        model = model(**params)
    elif params:
        raise ConfigError(
            f"{model!r} is made already, so {', '.join(params)} can't be chosen; name its class"
        )
    return ParallelEnv(model, **options)


def load(target: str) -> Any:
    """What ``"module:attribute"`` names.

    Raises:
        ConfigError: no such module or attribute.
    """
    module, colon, attribute = target.partition(":")
    parts = attribute.split(".")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise ConfigError(
            f"expected 'module:attribute', as in 'my_package.my_module:MyModel', got {target!r}"
        )
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A module that exists and lacks something it imports is another matter.
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(f"{target!r}: there is no module {error.name!r}") from None
        raise _failed_import(target, error) from error
    except SeerError:
        raise
    except Exception as error:
        raise _failed_import(target, error) from error
    for part in parts:
        if not hasattr(value, part) and not _imported(value, part, target):
            near = difflib.get_close_matches(part, dir(value), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{target!r}: {module!r} has no attribute {part!r}{hint}")
        value = getattr(value, part)
    return value


def _imported(package: Any, name: str, target: str) -> bool:
    """Whether `name` is a module of that package which nobody had imported yet; now it is."""
    if not hasattr(package, "__path__"):
        return False
    full = f"{package.__name__}.{name}"
    try:
        importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name == full:
            return False
        raise _failed_import(target, error) from error
    except Exception as error:
        raise _failed_import(target, error) from error
    return True


def _failed_import(target: str, error: Exception) -> ConfigError:
    """What a module of the user's raised, and where."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place else ""
    return ConfigError(
        f"{target!r}: its module can't be imported: {type(error).__name__}: {error}{where}"
    )


def is_model(value: Any) -> bool:
    """Whether this is a `seer.EventModel`, or such a class."""
    from .model import EventModel

    return isinstance(value, EventModel) or (
        isinstance(value, type) and issubclass(value, EventModel)
    )


def _split(name: str) -> tuple[str, int]:
    match = _ID.fullmatch(name)
    if match is None:
        raise ConfigError(f"an id is a name and a version, such as 'uav_swarm_v0', got {name!r}")
    return match["name"], int(match["version"])


def _unknown(name: str) -> UnknownIdError:
    known = [*list(), *sorted({entry.name for entry in _TABLE.values()})]
    close = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    nearest = close[0] if close else None
    hint = f"; did you mean {nearest!r}?" if nearest else ""
    match = _ID.fullmatch(name)
    if match is not None:
        versions = [i for i in list() if _split(i)[0] == match["name"]]
        if versions:
            hint = f"; its versions are {', '.join(versions)}"
    return UnknownIdError(
        f"there is no environment {name!r}{hint} (known: {', '.join(list())}; a model of "
        "your own is named 'module:Class')",
        name=name,
        nearest=nearest,
    )


register(
    Entry(
        id="uav_swarm_v0",
        env="seer.envs.uav_swarm_v0:parallel_env",
        model="seer.envs.uav_swarm:make_model",
        policies=(("heuristic", "seer.envs.uav_swarm:heuristic"),),
        summary="Drones with a radio: cover an area, or meet at one point.",
    )
)
