"""What kind of environment something is, and what it says of itself.

Environments are known by their classes where the packages are loaded that define them, and else
by what they can do, so that an environment of another package need not inherit from anything.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import ConfigError

__all__ = ["LONE", "EnvDescription", "EnvKind", "describe", "kind_of_env"]

LONE = "agent_0"
"""What the only agent of a Gymnasium environment is called."""

EnvKind = Literal["parallel", "aec", "gymnasium"]


@dataclass
class EnvDescription:
    """What one environment says of itself; can be pickled.

    Attributes:
        kind: how it is stepped.
        agents: its possible agents in order; None where it doesn't tell them before a reset.
        spaces: agent -> (observation space, action space), for all of `agents`.
        metadata, render_mode, spec: as the environment has them.
        has_state: ``state()`` can be called.
        name: of its class, for messages.
    """

    kind: EnvKind
    agents: tuple[str, ...] | None
    spaces: dict[str, tuple[Any, Any]]
    metadata: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None
    has_state: bool = False
    spec: Any = None
    name: str = ""


def describe(env: Any, what: str = "the factory") -> EnvDescription:
    """Ask an environment what it is. It is neither reset nor stepped.

    Args:
        env: what a factory returned.
        what: who returned it, for messages, such as "environment 3".

    Raises:
        ConfigError: it is no environment, or one of a kind that can't be vectorized, or its
            agents or spaces are not legal.
    """
    kind = kind_of_env(env, what)
    name = type(env).__name__
    agents: tuple[str, ...] | None
    if kind == "gymnasium":
        agents = (LONE,)
        pair = [
            _space(getattr(env, which, None), which, what, name)
            for which in ("observation_space", "action_space")
        ]
        spaces = {LONE: (pair[0], pair[1])}
    else:
        agents = _agents(env, what, name)
        spaces = agent_spaces(env, agents, what) if agents else {}
    metadata = getattr(env, "metadata", None)
    return EnvDescription(
        kind,
        agents,
        spaces,
        metadata=_portable(metadata) if isinstance(metadata, Mapping) else {},
        render_mode=getattr(env, "render_mode", None),
        has_state=kind != "gymnasium" and _has_state(env),
        spec=getattr(env, "spec", None),
        name=name,
    )


def kind_of_env(env: Any, what: str = "the factory") -> EnvKind:
    """Whether it is a ParallelEnv, an AECEnv or a Gymnasium environment.

    Raises:
        ConfigError: it is none of them; says what it is instead.
    """
    import gymnasium

    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ConfigError(
            f"{what} returned {type(env).__name__}, which is a vector of environments already; "
            "give make_vec what makes a single one"
        )
    if _instance(env, "pettingzoo", "ParallelEnv"):
        return "parallel"
    if _instance(env, "pettingzoo", "AECEnv"):
        return "aec"
    stepped = callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))
    if not stepped or isinstance(env, type):
        raise ConfigError(f"{what} returned {_said(env)}, which is no environment{_advice(env)}")
    lone = all(
        isinstance(getattr(env, name, None), gymnasium.Space)
        for name in ("observation_space", "action_space")
    )
    several = getattr(env, "possible_agents", None) is not None or isinstance(
        getattr(env, "observation_spaces", None), Mapping
    )
    if isinstance(env, gymnasium.Env) and (lone or not several):
        return "gymnasium"
    if callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None)):
        return "aec"
    if (several and not lone) or callable(getattr(env, "observation_space", None)):
        return "parallel"
    if lone:
        return "gymnasium"
    if any(cls.__module__.split(".")[0] == "gym" for cls in _classes(env)):
        raise ConfigError(
            f"{what} returned {type(env).__name__}, an environment of the old gym package; its "
            "reset and step return other values. Move it to gymnasium (reset -> obs, info; step "
            "-> obs, reward, terminated, truncated, info; spaces of gymnasium), or wrap it with "
            "shimmy's GymV26CompatibilityV0 or GymV21CompatibilityV0"
        )
    raise ConfigError(
        f"{what} returned {type(env).__name__}, which has reset and step but neither "
        "possible_agents with spaces for each (a PettingZoo ParallelEnv) nor an "
        "observation_space and an action_space of gymnasium (a Gymnasium Env)"
    )


def agent_spaces(env: Any, agents: Sequence[str], what: str) -> dict[str, tuple[Any, Any]]:
    """Observation and action space of each agent.

    Raises:
        ConfigError: the environment doesn't have them, or they are no Gymnasium spaces.
    """
    observation = _asker(env, "observation_space", what)
    action = _asker(env, "action_space", what)
    return {agent: (observation(agent), action(agent)) for agent in agents}


def _asker(env: Any, which: str, what: str) -> Callable[[str], Any]:
    """Agent -> its space, by the environment's method or table."""
    import gymnasium

    name = type(env).__name__
    method = getattr(env, which, None)
    if callable(method) and not hasattr(method, "sample"):
        ask = method
    elif isinstance(table := getattr(env, f"{which}s", None), Mapping):
        ask = table.__getitem__
    else:
        raise ConfigError(
            f"{what} ({name}) has neither {which}(agent) nor {which}s, so the "
            f"{which.replace('_', ' ')}s of its agents are unknown"
        )

    def asked(agent: str) -> Any:
        try:
            space = ask(agent)
        except Exception as error:
            raise ConfigError(
                f"{what} ({name}) has no {which.replace('_', ' ')} for its agent {agent!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if isinstance(space, gymnasium.Space):
            return space
        return _space(space, f"{which}({agent!r})", what, name)

    return asked


def _agents(env: Any, what: str, name: str) -> tuple[str, ...] | None:
    agents = getattr(env, "possible_agents", None)
    if agents is None:
        agents = getattr(env, "agents", None) or None
    if agents is None:
        table = getattr(env, "observation_spaces", None)
        agents = list(table) if isinstance(table, Mapping) and table else None
    if agents is None:
        return None
    try:
        listed = tuple(agents)
    except TypeError:
        raise ConfigError(
            f"{what} ({name}): possible_agents must be a list of names, got {_said(agents)}"
        ) from None
    for agent in listed:
        if not isinstance(agent, str):
            raise ConfigError(
                f"{what} ({name}): the names of agents must be strings, got {agent!r} in "
                "possible_agents"
            )
    if len(set(listed)) < len(listed):
        twice = next(agent for agent in listed if listed.count(agent) > 1)
        raise ConfigError(f"{what} ({name}): possible_agents names {twice!r} twice")
    return listed or None


def _space(space: Any, which: str, what: str, name: str) -> Any:
    import gymnasium

    if isinstance(space, gymnasium.Space):
        return space
    old = type(space).__module__.split(".")[0] == "gym"
    hint = "; take it from gymnasium.spaces, not from gym.spaces" if old else ""
    raise ConfigError(
        f"{what} ({name}): {which} must be a gymnasium space, got {_said(space)}{hint}"
    )


def _has_state(env: Any) -> bool:
    """``state()`` is there and does more than PettingZoo's, which only raises."""
    base = getattr(env, "unwrapped", env)
    if not callable(getattr(base, "state", None)) or not callable(getattr(env, "state", None)):
        return False
    module = getattr(type(base).state, "__module__", "") if hasattr(type(base), "state") else ""
    return module != "pettingzoo.utils.env"


def _portable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of it can be pickled."""
    out = {}
    for key, value in metadata.items():
        try:
            pickle.dumps(value)
        except Exception:  # whatever an object's own method raises
            continue
        out[str(key)] = value
    return out


def _instance(env: Any, package: str, name: str) -> bool:
    """isinstance, without importing the package: without it there is no such instance."""
    module = sys.modules.get(package)
    cls = getattr(module, name, None) if module is not None else None
    return isinstance(cls, type) and isinstance(env, cls)


def _classes(env: Any) -> list[type]:
    spaces = (getattr(env, "observation_space", None), getattr(env, "action_space", None))
    return [cls for thing in (env, *spaces) for cls in type(thing).__mro__]


def _said(value: Any) -> str:
    """What came, for a message."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = type(value).__name__
    return f"{'an' if text[0] in 'aeiouAEIOU' else 'a'} {text}"


def _advice(value: Any) -> str:
    if value is None:
        return "; does it lack a return?"
    if isinstance(value, type) and hasattr(value, "step"):
        return "; give make_vec the class itself"
    if isinstance(value, (tuple, list)) and value and hasattr(value[0], "step"):
        return "; a factory makes a single one: give make_vec one for each in a list"
    if callable(value) and not hasattr(value, "step"):
        return "; it can be called, so give make_vec that instead of what returns it"
    return "; it must have reset and step"
