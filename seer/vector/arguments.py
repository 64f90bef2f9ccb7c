"""The arguments of make_vec, each checked for itself and against the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import PoolConfig, flag, kind_of, whole
from .config import MAX_WORKERS, ProcessConfig
from .contract import Mode
from .factory import nearest_hint

__all__ = ["BACKENDS", "LAYOUTS", "Arguments", "autoreset_name"]

LAYOUTS = ("flat", "dict", "stacked", "list")
BACKENDS = ("auto", "serial", "process", "native")
_MODES: tuple[Mode, ...] = ("next_step", "same_step", "disabled")


@dataclass
class Arguments:
    """What make_vec was asked for. The fields are its parameters, in their normal form."""

    num_envs: int | None
    layout: str | None
    backend: str
    workers: int | None
    isolate: bool
    pool: Any
    autoreset: Any
    autoreset_options: Any
    batch_size: int | None
    groups: Any
    dead: str
    max_agents: int | None
    render_mode: str | None
    copy: bool
    timeout: float | None
    on_worker_death: str
    start_method: str | None
    wrappers: Sequence[Callable[[Any], Any]]
    probe: bool
    env_kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.num_envs = _count("num_envs", self.num_envs, "environments")
        self.layout = _choice("layout", self.layout, LAYOUTS, none=True)
        self.backend = str(_choice("backend", self.backend, BACKENDS))
        self.workers = _count("workers", self.workers, "worker processes", MAX_WORKERS)
        self.isolate = flag("make_vec(isolate=…)", self.isolate)
        self.pool = _pool(self.pool)
        self.autoreset = autoreset_name(self.autoreset)
        self.autoreset_options = _reset_options(self.autoreset_options)
        self.batch_size = _count("batch_size", self.batch_size, "environments")
        self.groups = _groups(self.groups)
        self.dead = str(_choice("dead", self.dead, ("mask", "done_together")))
        self.max_agents = _count("max_agents", self.max_agents, "slots")
        if self.render_mode is not None and not isinstance(self.render_mode, str):
            raise ConfigError(
                "make_vec(render_mode=…): expected None or a name such as 'rgb_array', got "
                f"{self.render_mode!r}"
            )
        self.copy = flag("make_vec(copy=…)", self.copy)
        self.timeout = _seconds("timeout", self.timeout)
        self.on_worker_death = str(
            _choice("on_worker_death", self.on_worker_death, ("raise", "restart"))
        )
        self.start_method = _choice(
            "start_method", self.start_method, ("forkserver", "spawn", "fork"), none=True
        )
        self.wrappers = _wrappers(self.wrappers)
        self.probe = flag("make_vec(probe=…)", self.probe)
        if not isinstance(self.env_kwargs, Mapping):
            raise ConfigError(
                f"make_vec(env_kwargs=…): expected a dict, got {kind_of(self.env_kwargs)}"
            )
        self._together()

    def _together(self) -> None:
        """What excludes what."""
        wanted = self.process_wishes()
        if self.backend == "serial" and wanted:
            raise ConfigError(
                f"make_vec(backend='serial') has no processes, so {wanted[0]} can't be had; use "
                "backend='process' or 'auto'"
            )
        if self.layout == "flat" and self.groups is not None:
            raise ConfigError(
                "make_vec(layout='flat', groups=…): flat rows know no groups; use layout='stacked'"
            )
        if self.dead != "mask" and self.layout not in (None, "flat"):
            raise ConfigError(
                f"make_vec(layout={self.layout!r}, dead={self.dead!r}): only flat rows need it; "
                "elsewhere vec.live says who is dead"
            )
        pool = self.pool
        if isinstance(pool, PoolConfig) and (wanted or self.backend in ("serial", "process")):
            other = f"backend={self.backend!r}" if not wanted else wanted[0]
            raise ConfigError(
                f"make_vec(pool=PoolConfig(…)) is for native worlds, {other} for wrapped "
                "environments; give a ProcessConfig"
            )
        if not isinstance(pool, ProcessConfig):
            return
        if self.workers is not None:
            raise ConfigError(
                f"make_vec(workers={self.workers}, pool={pool!r}): both choose the workers; leave "
                "one of them out"
            )
        why = self.isolation()
        if why and (pool.workers == 0 or (pool.caller_share or 0.0) > 0.0):
            raise ConfigError(
                f"make_vec({why}, pool={pool!r}): {why} keeps every environment in a worker, so "
                "the caller can't step any; leave caller_share out"
            )

    def process_wishes(self) -> list[str]:
        """The arguments that only make sense with worker processes, as they were written."""
        return [
            *([f"workers={self.workers}"] if self.workers is not None else []),
            *(["isolate=True"] if self.isolate else []),
            *([f"timeout={self.timeout:g}"] if self.timeout is not None else []),
            *(["on_worker_death='restart'"] if self.on_worker_death == "restart" else []),
            *([f"start_method={self.start_method!r}"] if self.start_method is not None else []),
            *([f"pool={self.pool!r}"] if isinstance(self.pool, ProcessConfig) else []),
        ]

    def isolation(self) -> str:
        """Which argument keeps every environment in a worker; "" where none does."""
        if self.isolate:
            return "isolate=True"
        if self.timeout is not None:
            return f"timeout={self.timeout:g}"
        if self.on_worker_death == "restart":
            return "on_worker_death='restart'"
        return f"workers={self.workers}" if self.workers is not None else ""


def autoreset_name(value: Any) -> Mode:
    """The snake-case name of a mode.

    Args:
        value: a member of `gymnasium.vector.AutoresetMode`, its value such as ``"NextStep"``, or
            the name.

    Raises:
        ConfigError: it is none of them.
    """
    text = getattr(value, "value", value)
    if isinstance(text, str):
        folded = text.replace("_", "").replace("-", "").lower()
        for mode in _MODES:
            if folded == mode.replace("_", ""):
                return mode
    raise ConfigError(
        "make_vec(autoreset=…): expected 'next_step', 'same_step', 'disabled' or a member of "
        f"gymnasium.vector.AutoresetMode, got {value!r}"
    )


def _choice(name: str, value: Any, choices: Sequence[str], *, none: bool = False) -> str | None:
    if value is None and none:
        return None
    if isinstance(value, str) and value in choices:
        return value
    near = nearest_hint(value, choices) if isinstance(value, str) else ""
    listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
    raise ConfigError(f"make_vec({name}=…): expected {listed}, got {value!r}{near}")


def _count(name: str, value: Any, what: str, high: int = 2**31 - 1) -> int | None:
    if value is None:
        return None
    number = whole(value)
    if number is None:
        raise ConfigError(
            f"make_vec({name}=…): expected a whole number of {what}, got {value!r} "
            f"({kind_of(value)})"
        )
    if not 1 <= number <= high:
        serial = "; backend='serial' has no workers" if (name, number) == ("workers", 0) else ""
        side = "at least 1" if number < 1 else f"at most {high}"
        raise ConfigError(f"make_vec({name}=…): expected {side}, got {number}{serial}")
    return number


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise ConfigError(
            f"make_vec({name}=…): expected a number of seconds, got {value!r} ({kind_of(value)})"
        )
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not (math.isfinite(number) and number > 0.0):
        raise ConfigError(
            f"make_vec({name}=…): expected a finite number of seconds above 0, got {number:g}; "
            "None is no limit"
        )
    return number


def _pool(value: Any) -> PoolConfig | ProcessConfig | None:
    if isinstance(value, PoolConfig | ProcessConfig):
        return value
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    raise ConfigError(
        "make_vec(pool=…): expected 'auto', a seer.PoolConfig (native worlds) or a "
        f"seer.vector.ProcessConfig (wrapped environments), got {value!r}"
    )


def _groups(value: Any) -> Any:
    if value is None or isinstance(value, str | Mapping) or callable(value):
        return value
    raise ConfigError(
        "make_vec(groups=…): expected None, 'spaces', 'all', 'each', a dict of group to agents, or "
        f"a callable from agent to group, got {value!r}"
    )


def _reset_options(value: Any) -> Any:
    if value is None or callable(value) or (isinstance(value, str) and value == "last"):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigError(
        "make_vec(autoreset_options=…): expected None, 'last', a dict, or a callable (index of "
        f"the environment, episode) -> dict, got {value!r}"
    )


def _wrappers(value: Any) -> tuple[Callable[[Any], Any], ...]:
    if callable(value):
        raise ConfigError(
            "make_vec(wrappers=…): expected a sequence of callables; write wrappers=[…] around it"
        )
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(
            f"make_vec(wrappers=…): expected a sequence of callables env -> env, got {value!r}"
        )
    for k, wrapper in enumerate(value):
        if not callable(wrapper):
            raise ConfigError(
                f"make_vec(wrappers=…): expected callables env -> env, got {wrapper!r} at {k}"
            )
    return tuple(value)
