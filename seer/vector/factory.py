"""What makes one environment: picklable, with its arguments and wrappers, and checked."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cloudpickle

from ..errors import ConfigError
from .cells import Cell, GymnasiumCell, ParallelCell
from .contract import EnvFailure, VecSpec
from .describe import kind_of_env

__all__ = [
    "Factory", "Lookup", "Made", "check_keywords", "construct", "make_cell", "nearest",
    "nearest_hint", "takes", "title", "unsendable",
]  # fmt: skip

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


class Factory:
    """A zero-argument factory of one wrapped environment; can be pickled by cloudpickle.

    Args:
        make: makes the environment.
        kwargs: for `make`.
        wrappers: applied to it, the first one innermost.
        name: for messages.
        names: keywords that somebody may have meant who passed one that `make` doesn't know.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        kwargs: Mapping[str, Any],
        wrappers: Sequence[Callable[[Any], Any]] = (),
        name: str = "env",
        names: Sequence[str] = (),
    ) -> None:
        self.make, self.kwargs, self.wrappers = make, dict(kwargs), tuple(wrappers)
        self.name, self.names = name, tuple(names)
        self._made: dict[int, Any] = {}  # by id, weak references

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": {}}

    def __call__(self) -> Any:
        """A new environment.

        Raises:
            ConfigError: a keyword is unknown, or a wrapper doesn't return an environment.
            Exception: whatever the factory raises.
        """
        try:
            env = self.make(**self.kwargs)
        except TypeError as error:
            found = _UNEXPECTED.search(str(error))
            if found is None or found[1] not in self.kwargs:
                raise
            hint = nearest_hint(found[1], self.names)
            raise ConfigError(f"{self.name} doesn't take the keyword {found[1]!r}{hint}") from error
        self._check_new(env)
        for wrapper in self.wrappers:
            kind_of_env(env, f"the factory {self.name}")
            try:
                wrapped = wrapper(env)
                kind_of_env(wrapped, f"the wrapper {title(wrapper)}")
            except BaseException:
                with contextlib.suppress(Exception):  # the first error is what matters
                    env.close()
                raise
            env = wrapped
        return env

    def _check_new(self, env: Any) -> None:
        """Two environments that are one object would step twice as fast, and share episodes."""
        known = self._made.get(id(env))
        if known is not None and known() is env:
            raise ConfigError(
                f"the factory {self.name} returned the same {type(env).__name__} twice; it must "
                f"make a new one each time it is called, as in lambda: {type(env).__name__}(…)"
            )
        with contextlib.suppress(TypeError):  # objects with slots may not be referred to weakly
            self._made[id(env)] = weakref.ref(env)

    def key(self) -> Any:
        """Equal for factories whose environments may be expected to cost the same."""
        return (_key(self.make), repr(sorted(self.kwargs.items(), key=str)),
                tuple(map(_key, self.wrappers)))  # fmt: skip

    def __repr__(self) -> str:
        return f"Factory({self.name})"


class Lookup:
    """A module's attribute, found again by name where this is unpickled.

    A function that a decorator made has no importable name of its own, so pickling it would copy
    it, and what it refers to, into every worker.
    """

    def __init__(self, module: Any, attribute: str) -> None:
        self.module, self.attribute = module, attribute

    def __call__(self, **kwargs: Any) -> Any:
        """What the attribute returns."""
        return getattr(self.module, self.attribute)(**kwargs)


class Made:
    """An environment of a registered Gymnasium spec; the registry is not asked again."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def __call__(self, **kwargs: Any) -> Any:
        """A new environment of the spec."""
        import gymnasium

        return gymnasium.make(self.spec, **kwargs)


def construct(factories: Sequence[Callable[[], Any]], first: int = 0) -> list[Any]:
    """Make environments; those that were made are closed again where one can't be.

    Args:
        factories: one for each.
        first: number of the first in the vector.

    Raises:
        EnvFailure: a factory raised, or what it returned is no environment, or one that it, or
            another factory, returned before.
    """
    envs: list[Any] = []
    for k, factory in enumerate(factories):
        try:
            env = factory()
            name = getattr(factory, "name", title(factory))
            kind_of_env(env, f"the factory {name}")
            for j, other in enumerate(envs):
                if other is env:
                    raise ConfigError(
                        f"environments {first + j} and {first + k} are the same "
                        f"{type(env).__name__}; every factory must make a new one"
                    )
        except BaseException as error:
            for other in envs:
                with contextlib.suppress(Exception):  # the first error is what matters
                    other.close()
            if isinstance(error, Exception):
                raise EnvFailure(first + k, error) from error
            raise
        envs.append(env)
    return envs


def unsendable(factories: Sequence[Factory]) -> str:
    """Why one of them can't be sent to another process; "" where all can."""
    for factory in {id(factory): factory for factory in factories}.values():
        try:
            cloudpickle.dumps(factory)
        except Exception as error:  # pickling runs anybody's code
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            return f"the factory {factory.name} can't be sent to a worker process ({what})"
    return ""


def make_cell(env: Any, spec: VecSpec, index: int) -> Cell:
    """An environment as number `index` of a vector."""
    if spec.kind == "gymnasium":
        return GymnasiumCell(env, spec, index)
    if spec.kind == "aec":
        from .aec import AecCell

        cell: Cell = AecCell(env, spec, index)
        return cell
    return ParallelCell(env, spec, index)


# ---- keywords ------------------------------------------------------------------------


def check_keywords(
    make: Callable[..., Any], kwargs: Mapping[str, Any], name: str, own: Sequence[str]
) -> None:
    """Whether `make` can be called with these keywords, as far as its signature tells.

    Args:
        make: a callable.
        kwargs: what it is to be given.
        name: of the callable, for messages.
        own: the keywords of make_vec.

    Raises:
        ConfigError: it doesn't know one of them, or needs another.
    """
    parameters = _parameters(make)
    if parameters is None:
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for keyword in kwargs:
            if keyword not in known:
                takes = ", ".join(known) if known else "no arguments"
                near = nearest_hint(keyword, [*known, *own])
                raise ConfigError(
                    f"make_vec: unknown keyword {keyword!r}: {name} takes {takes}, and make_vec "
                    f"itself has none of that name{near}"
                )
    missing = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and (p.name not in kwargs or p.kind is p.POSITIONAL_ONLY)
    ]
    if missing:
        given = ", ".join(f"{key}=…" for key in missing)
        raise ConfigError(
            f"make_vec: {name} needs {', '.join(map(repr, missing))}; pass {given} to make_vec, "
            "or bind it with functools.partial"
        )


def takes(make: Callable[..., Any], keyword: str) -> bool:
    """Whether a callable can be given this keyword."""
    parameters = _parameters(make)
    return parameters is None or any(
        p.kind is p.VAR_KEYWORD
        or (p.name == keyword and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        for p in parameters
    )


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter] | None:
    if isinstance(make, type) and make.__init__ is object.__init__:  # type: ignore[misc]
        return []
    try:
        return list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to one that is unknown."""
    close = difflib.get_close_matches(name.lower(), list(known), 1, 0.6)
    return close[0] if close else None


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """A question for the end of a message."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def title(thing: Any) -> str:
    """What a callable is called in messages."""
    if isinstance(thing, functools.partial):
        return title(thing.func)
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    return name.replace("<locals>.", "") if isinstance(name, str) else type(thing).__name__


def _key(make: Any) -> Any:
    """What two factories must share to be taken for equals."""
    if isinstance(make, functools.partial):
        return (_key(make.func), repr(make.args), repr(sorted(make.keywords.items())))
    code = getattr(make, "__code__", None)
    if code is not None:
        cells = [_content(cell) for cell in make.__closure__ or ()]
        return (code, repr(cells), repr(make.__defaults__), repr(make.__kwdefaults__))
    if isinstance(make, Lookup):
        return (make.module.__name__, make.attribute)
    return id(make)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
