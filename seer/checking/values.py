"""The rules about single values: flags, rewards, infos, observations, masks, and their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..vector.leaves import OBJECT, Leaf, Tree
from .compare import difference
from .play import Moment, mask_of
from .report import Findings

__all__ = ["Values"]


class Values:
    """Looks at the values that an environment reports, moment by moment.

    Args:
        findings: what is found goes there.
        kind: of the environment.
        spaces: agent -> (observation space, action space).
    """

    def __init__(
        self, findings: Findings, kind: str, spaces: Mapping[str, tuple[Any, Any]]
    ) -> None:
        self._findings, self._kind, self._spaces = findings, kind, spaces
        self._trees = {agent: Tree(pair[0]) for agent, pair in spaces.items()}
        self._last: Moment | None = None

    def see(self, now: Moment) -> None:
        """Look at one moment. What is wrong is added to the findings."""
        self._buffers(now)
        self._flags(now)
        self._rewards(now)
        self._infos(now)
        for agent, value in now.obs.items():
            if agent in self._trees:
                self._observation(now, agent, value)
        self._masks(now)
        if now.altered is not None:
            what = f"step() changed the actions that it was given ({now.altered})"
            self._add("action-altered", what, now)
        self._last = now

    def _add(self, rule: str, what: str, now: Moment, agent: str | None = None) -> None:
        if self._kind == "gymnasium":
            agent = None
        self._findings.add(rule, what, agent=agent, episode=now.episode, step=now.step)

    def _of(self, agent: str) -> str:
        return "" if self._kind == "gymnasium" else f" of agent {agent!r}"

    def _flags(self, now: Moment) -> None:
        for name, flags in (("terminated", now.terminations), ("truncated", now.truncations)):
            for agent, flag in flags.items():
                if agent == "__all__":
                    self._add(
                        "flag-all", f"'__all__' is among the {name} flags, and is no agent", now
                    )
                elif not isinstance(flag, (bool, np.bool_)):
                    self._add(
                        "flag-type",
                        f"The flag {name}{self._of(agent)} is {_came(flag)}, not a bool",
                        now,
                        agent,
                    )

    def _rewards(self, now: Moment) -> None:
        for agent, reward in now.rewards.items():
            if isinstance(reward, (int, float, np.integer, np.floating, np.bool_)):
                if not np.isfinite(reward):
                    self._add(
                        "reward-finite", f"The reward{self._of(agent)} is {reward}", now, agent
                    )
            else:
                self._add(
                    "reward-type",
                    f"The reward{self._of(agent)} is {_came(reward)}, not a number",
                    now,
                    agent,
                )

    def _infos(self, now: Moment) -> None:
        owner: dict[int, str] = {}
        for agent, info in now.raw[4].items():
            if not isinstance(info, Mapping):
                if agent in self._spaces:
                    self._add(
                        "info-form",
                        f"The info{self._of(agent)} is {_came(info)}, not a dict",
                        now,
                        agent,
                    )
                continue
            other = owner.setdefault(id(info), agent)
            if other != agent:
                self._add(
                    "info-shared",
                    f"Agents {other!r} and {agent!r} are given the same dict "
                    "as info: what is written into one shows in the other",
                    now,
                    agent,
                )

    # ---- memory that is used again

    def _buffers(self, now: Moment) -> None:
        """What was returned a moment ago must still be what it was."""
        last = self._last
        if last is None:
            return
        for rule, field, copied in (
            ("observation-reused", 0, last.obs),
            ("info-reused", 4, last.infos),
        ):
            what = "observation" if field == 0 else "info"
            for agent, value in last.raw[field].items():
                changed = difference(copied.get(agent), value, what)
                if changed is not None:
                    self._add(
                        rule,
                        f"The {what}{self._of(agent)} that was returned before changed "
                        f"in the next call ({changed}): the same memory is used again",
                        last,
                        agent,
                    )

    # ---- observations

    def _observation(self, now: Moment, agent: str, value: Any) -> None:
        tree, space = self._trees[agent], self._spaces[agent][0]
        who = f"The observation{self._of(agent)}"
        if value is None:
            if agent in now.live:
                self._add("observation-missing", f"{who} is None though it is to act", now, agent)
            return
        try:
            parts = tree.flatten(value)
            extra = isinstance(value, Mapping) and set(value) - set(space.spaces)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            lacks = f": it lacks {error}" if isinstance(error, KeyError) else ""
            what = f"{who} is {_came(value)}, which is not built like {space}{lacks}"
            self._add("observation-form", what, now, agent)
            return
        if extra:
            self._add(
                "observation-form",
                f"{who} has {sorted(map(str, extra))}, of which its space knows nothing",
                now,
                agent,
            )
        for leaf, part in zip(tree.leaves, parts, strict=True):
            found = _wrong(leaf, part)
            if found is not None:
                where = "".join(f"[{key!r}]" for key in leaf.path)
                self._add(found[0], f"{who}{where} {found[1]}", now, agent)

    # ---- masks

    def _masks(self, now: Moment) -> None:
        for agent in now.live:
            mask = mask_of(now, agent)
            if mask is None or agent not in self._spaces:
                continue
            size = getattr(self._spaces[agent][1], "n", None)
            if size is None or isinstance(size, np.ndarray):
                continue
            array = np.asarray(mask)
            if array.dtype == object or array.size != size:
                self._add(
                    "mask-form",
                    f"The action mask{self._of(agent)} is {_came(mask)}; its "
                    f"action space has {size} actions",
                    now,
                    agent,
                )
            elif not array.any():
                self._add(
                    "mask-empty",
                    f"The action mask{self._of(agent)}, which must act, allows no action",
                    now,
                    agent,
                )


def _wrong(leaf: Leaf, value: Any) -> tuple[str, str] | None:
    """The rule that a part of an observation breaks, and how."""
    from gymnasium import spaces

    space = leaf.space
    if leaf.dtype == OBJECT:
        fits = _contains(space, value)
        return None if fits else ("observation-form", f"is {_came(value)}, which is not in {space}")
    plain = isinstance(value, (np.ndarray, np.generic))
    if not plain and not (leaf.shape == () and isinstance(value, (int, float))):
        return "observation-form", f"is {_came(value)}; its space has arrays"
    array = np.asarray(value)
    if array.shape != leaf.shape:
        return "observation-shape", f"has shape {array.shape}; its space declares {leaf.shape}"
    counted = isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))
    if array.dtype != leaf.dtype and not (
        (counted and array.dtype.kind in "iub") or (not plain and array.dtype.kind in "if")
    ):
        return "observation-dtype", f"has dtype {array.dtype}; its space declares {leaf.dtype}"
    if not _contains(space, array.astype(leaf.dtype) if counted else array):
        if array.dtype.kind == "f" and np.isnan(array).any():
            return "observation-nan", "holds NaN"
        if isinstance(space, spaces.Box) and array.size:
            low, high = np.min(space.low), np.max(space.high)
            return (
                "observation-bounds",
                f"reaches from {array.min():g} to {array.max():g}; its "
                f"space declares {low:g} to {high:g}",
            )
        return "observation-bounds", f"is {array!r}, which is not in {space}"
    return None


def _contains(space: Any, value: Any) -> bool:
    try:
        return bool(space.contains(value))
    except Exception:  # a space of the author's own may raise what it likes
        return False


def _came(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, dtype {value.dtype}"
    if value is None:
        return "None"
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"
