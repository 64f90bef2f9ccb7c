"""The rules about what an environment is, not what it does: spaces, pictures, closing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..vector.describe import LONE, agent_spaces, describe
from ..vector.sources import resolve
from .report import Findings

__all__ = ["close_rules", "render_rules", "space_rules"]

Pairs = Mapping[str, tuple[Any, Any]]


def space_rules(
    env: Any, kind: str, findings: Findings
) -> tuple[tuple[str, ...], dict[str, tuple[Any, Any]]] | None:
    """Agents and their spaces.

    Args:
        env: the environment.
        kind: of it.
        findings: what is found goes there.

    Returns:
        The agents in order, and agent -> (observation space, action space); None where it can't
        be played for lack of them.
    """
    agents: tuple[str, ...] | None = (LONE,)
    if kind != "gymnasium":
        agents = _agents(env, findings)
    if agents is None:
        return None
    pairs = {}
    for agent in agents:
        try:
            pair = pairs[agent] = _pair(env, kind, agent)
            again = _pair(env, kind, agent)
        except ConfigError as error:
            findings.add("space-missing", str(error), agent=_named(kind, agent))
            continue
        for which, one, other in zip(("observation", "action"), pair, again, strict=True):
            _same_space(f"The {which} space", one, other, kind, agent, findings)
    return (agents, pairs) if len(pairs) == len(agents) else None


def changed_spaces(env: Any, kind: str, findings: Findings, known: Pairs) -> None:
    """Whether the spaces are still what they were before the environment was played."""
    for agent, before in known.items():
        try:
            now = _pair(env, kind, agent)
        except ConfigError:
            continue
        for which, was, is_now in zip(("observation", "action"), before, now, strict=True):
            if was != is_now and "space-changes" not in findings.rules:
                what = (
                    f"The {which} space{_of(kind, agent)} was {was} and is {is_now} after playing"
                )
                findings.add("space-changes", what, agent=_named(kind, agent))


def _agents(env: Any, findings: Findings) -> tuple[str, ...] | None:
    possible = getattr(env, "possible_agents", None)
    if possible is None:
        findings.add("possible-agents", "The environment has no possible_agents")
        with suppress(Exception):
            env.reset(seed=0)
            possible = env.agents
    try:
        agents = tuple(possible or ())
    except TypeError:
        agents = ()
    if not agents or not all(isinstance(agent, str) for agent in agents):
        findings.add("agent-names", f"possible_agents is {possible!r}, and not a list of names")
        return None
    if len(set(agents)) < len(agents):
        findings.add("agent-names", f"possible_agents names an agent twice: {list(agents)}")
        return None
    return agents


def _pair(env: Any, kind: str, agent: str) -> tuple[Any, Any]:
    if kind == "gymnasium":
        description = describe(env, "The environment")
        return description.spaces[LONE]
    return agent_spaces(env, [agent], "The environment")[agent]


def _same_space(what: str, one: Any, other: Any, kind: str, agent: str, findings: Findings) -> None:
    if one is other:
        return
    if one == other:
        findings.add("space-object", f"{what}{_of(kind, agent)} is a new object each time it is "
                     "asked for", agent=_named(kind, agent))  # fmt: skip
    else:
        findings.add("space-changes", f"{what}{_of(kind, agent)} is {one} when asked for, and "
                     f"{other} when asked for again", agent=_named(kind, agent))  # fmt: skip


def close_rules(used: Any, findings: Findings) -> None:
    """Close what was played, twice."""
    if not hasattr(used, "close"):
        return
    try:
        used.close()
    except (Exception, SystemExit) as error:
        findings.add("raises", f"close() raised {type(error).__name__}: {error}")
        return
    try:
        used.close()
    except (Exception, SystemExit) as error:
        findings.add("close-twice", f"A second close() raised {type(error).__name__}: {error}")


def unused_rules(unused: Any, findings: Findings) -> None:
    """Close what was never reset."""
    if not hasattr(unused, "close"):
        return
    try:
        unused.close()
    except (Exception, SystemExit) as error:
        what = f"Closed before its first reset, it raised {type(error).__name__}: {error}"
        findings.add("close-early", what)


def render_rules(source: Any, env: Any, kind: str, findings: Findings) -> None:
    """Every declared mode but 'human', which would open windows."""
    metadata = getattr(env, "metadata", None)
    declared = metadata.get("render_modes", ()) if isinstance(metadata, Mapping) else ()
    mode = getattr(env, "render_mode", None)
    if mode is not None and mode not in declared:
        findings.add("render-mode", f"Its render_mode is {mode!r}, which "
                     f"metadata['render_modes'] {list(declared)} doesn't name")  # fmt: skip
    for mode in declared:
        if mode in (None, "human"):
            continue
        try:
            given = resolve(source, render_mode=mode)
        except ConfigError:
            continue
        if not given.given_mode:
            findings.note("it declares render modes, and the factory takes no render_mode, so "
                          "they were not tried")  # fmt: skip
            return
        _render(given.factories[0], mode, findings)


def _render(make: Callable[[], Any], mode: str, findings: Findings) -> None:
    try:
        env = make()
        try:
            env.reset()
            if getattr(env, "render_mode", None) != mode:
                findings.add("render-mode", f"Made with render_mode={mode!r}, its render_mode is "
                             f"{getattr(env, 'render_mode', None)!r}")  # fmt: skip
            picture = env.render()
        finally:
            with suppress(Exception):
                env.close()
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) or type(error).__name__ == "DependencyNotInstalled":
            findings.note(f"render mode {mode!r} was not tried: {error}")
        else:
            findings.add("render", f"metadata declares render mode {mode!r}, and rendering raised "
                         f"{type(error).__name__}: {error}")  # fmt: skip
        return
    wrong = _picture(mode, picture)
    if wrong:
        findings.add("render", f"In the declared render mode {mode!r} render() returns {wrong}")


def _picture(mode: str, picture: Any) -> str:
    """What is wrong with a picture; "" if nothing."""
    if mode.endswith("_list"):
        return "" if isinstance(picture, list) else f"{type(picture).__name__}, not a list"
    if mode == "ansi":
        return "" if isinstance(picture, str) else f"{type(picture).__name__}, not a str"
    if mode != "rgb_array":
        return ""
    if not isinstance(picture, np.ndarray):
        return "None" if picture is None else f"{type(picture).__name__}, not an array"
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        return f"an array of shape {picture.shape}, dtype {picture.dtype}"
    return ""


def _of(kind: str, agent: str) -> str:
    return "" if kind == "gymnasium" else f" of agent {agent!r}"


def _named(kind: str, agent: str) -> str | None:
    return None if kind == "gymnasium" else agent
