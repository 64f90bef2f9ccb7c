"""One wrapped environment each, whatever it came from, with one interface: reset and step.

A cell knows who is alive and when an episode is over. Automatic resets, arrays and everything
that concerns more than one environment are the host's.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import ResultError, UnknownAgentError
from .contract import VecSpec
from .describe import LONE

__all__ = ["Cell", "GymnasiumCell", "Outcome", "ParallelCell", "number", "truth"]


class Outcome(NamedTuple):
    """What an environment reported, by agent; flags only of those that ended in this step."""

    obs: Mapping[str, Any]
    rewards: Mapping[str, Any]
    terminations: Mapping[str, Any]
    truncations: Mapping[str, Any]
    infos: Mapping[str, Any]


class Cell:
    """A wrapped environment.

    Args:
        env: the environment.
        spec: of the vector that it is part of.
        index: its number in it.

    Attributes:
        live: names of those who must be given an action next, in slot order.
        over: the episode has ended, or none was begun.
        full: everybody is live, in slots of their own names, and the environment lists them as
            `order`: the case that a host steps without looking closer.
        turn: slot of the agent to act; -1 where everybody acts at once.
        episode: how many episodes were begun before this one.
        assigned: agent -> reserved slot, in this episode.
    """

    def __init__(self, env: Any, spec: VecSpec, index: int) -> None:
        self.env, self.spec, self.index = env, spec, index
        self.live: list[str] = []
        self.over = True
        self.full = False
        self.look: tuple[Any, list[str], list[str] | None] = (env, [], None)
        self.turn = -1
        self.episode = -1
        self.assigned: dict[str, int] = {}
        self.closed = False
        self.last_options: Any = None
        self._reset_takes = _accepted(env.reset)

    def reset(self, seed: int | None, options: Any) -> Outcome:
        """Begin an episode."""
        raise NotImplementedError

    def step(self, actions: dict[str, Any]) -> Outcome:
        """Give every live agent its action."""
        raise NotImplementedError

    def settle(self, result: Any) -> Outcome:
        """What the environment returned from a step, understood."""
        raise NotImplementedError

    def slot(self, agent: str) -> int | None:
        """Where an agent's data go; None: it has no slot and travels beside the arrays."""
        slot = self.spec.slot.get(agent)
        if slot is None:
            slot = self.assigned.get(agent)
            if slot is None and (self.spec.reserved or not self.spec.open_names):
                slot = self._assign(agent)
        return slot

    def close(self) -> None:
        """Close the environment, once."""
        if not self.closed:
            self.closed = True
            getattr(self.env, "close", _nothing)()

    def _begin(self, seed: int | None, options: Any) -> Any:
        # Environments may take things out of their options; those are of the next resets, too.
        mine = dict(options) if isinstance(options, dict) else options
        given = {"seed": seed, "options": mine}
        for name in [n for n in given if n not in self._reset_takes and given[n] is None]:
            del given[name]
        self.episode += 1
        self.assigned = {}
        self.over = False
        self.last_options = options
        return self.env.reset(**given)

    def _assign(self, agent: str) -> int | None:
        """A free slot; None: there is none, and it can do without."""
        spec = self.spec
        if not isinstance(agent, str):
            raise ResultError(
                f"environment {self.index} names an agent {agent!r}; names must be strings",
                env=self.index,
            )
        first = len(spec.agents) - spec.reserved
        taken = set(self.assigned.values())
        for slot in range(first, len(spec.agents)):
            if slot not in taken:
                self.assigned[agent] = slot
                return slot
        if spec.open_names:
            return None
        known = ", ".join(map(repr, spec.agents[: min(first, 8)]))
        more = (
            f"all {spec.reserved} reserved slots are taken in this episode; make the vector with "
            f"a larger max_agents than {spec.reserved}"
            if spec.reserved
            else "give make_vec a max_agents that reserves slots for agents that appear, or use "
            'layout="list"'
        )
        raise UnknownAgentError(
            f"environment {self.index} reports an agent {agent!r} that it did not announce "
            f"(announced: {known}); {more}",
            agent=agent, nearest=None,
        )  # fmt: skip

    def _parts(self, result: Any, count: int, what: str) -> Any:
        """The parts of what reset or step returned."""
        if isinstance(result, tuple) and len(result) == count:
            return result
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        names = "(observations, infos)" if count == 2 else (
            "(observations, rewards, terminations, truncations, infos)")  # fmt: skip
        raise ResultError(
            f"environment {self.index}: {what} must return {names}, got {got}", env=self.index
        )


class GymnasiumCell(Cell):
    """A Gymnasium environment: one agent."""

    def reset(self, seed: int | None, options: Any) -> Outcome:
        obs, info = self._parts(self._begin(seed, options), 2, "reset")
        self.live, self.full = [LONE], True
        return Outcome({LONE: obs}, {}, {}, {}, {LONE: info} if info else {})

    def step(self, actions: dict[str, Any]) -> Outcome:
        return self.settle(self.env.step(actions[LONE]))

    def settle(self, result: Any) -> Outcome:
        obs, reward, term, trunc, info = self._parts(result, 5, "step")
        term, trunc = truth(term, self.index, LONE), truth(trunc, self.index, LONE)
        if term or trunc:
            self.live, self.full, self.over = [], False, True
        return Outcome(
            {LONE: obs}, {LONE: reward}, {LONE: term}, {LONE: trunc}, {LONE: info} if info else {}
        )


class ParallelCell(Cell):
    """A PettingZoo ``ParallelEnv``."""

    def __init__(self, env: Any, spec: VecSpec, index: int) -> None:
        super().__init__(env, spec, index)
        self._seen: set[str] = set()  # in this episode
        self._dead: set[str] = set()
        self._lists = False  # whether the environment keeps its list of agents
        self._warned = False

    def reset(self, seed: int | None, options: Any) -> Outcome:
        obs, infos = self._parts(self._begin(seed, options), 2, "reset")
        obs = self._by_agent(obs, "observations of reset")
        infos = self._by_agent(infos or {}, "infos of reset")
        agents = getattr(self.env, "agents", None)
        self._lists = bool(agents)
        self._dead = set()
        self._seen = set(obs)
        listed = set(agents) if agents else self._seen
        self._set_live([a for a in obs if a in listed])
        return Outcome(obs, {}, {}, {}, infos)

    def step(self, actions: dict[str, Any]) -> Outcome:
        return self.settle(self.env.step(actions))

    def settle(self, result: Any) -> Outcome:
        obs, rewards, terms, truncs, infos = self._parts(result, 5, "step")
        obs = self._by_agent(obs, "observations")
        rewards = self._by_agent(rewards, "rewards")
        terms, truncs = self._flags(terms, "terminations"), self._flags(truncs, "truncations")
        infos = self._by_agent(infos or {}, "infos")
        ended = {a for a, flag in terms.items() if flag} | {a for a, f in truncs.items() if f}
        gone = {a for a in self._dead if a in ended or a not in obs}
        if gone:  # who died before is not heard of again, unless it is observed anew: a new life
            obs, rewards, terms, truncs = (
                {a: v for a, v in part.items() if a not in gone}
                for part in (obs, rewards, terms, truncs)
            )
            ended -= gone
        self._seen.update(obs, terms, truncs)
        self._dead = gone | ended
        agents = getattr(self.env, "agents", None) if self._lists else None
        listed = None if agents is None else set(agents)
        live = [a for a in obs if a not in ended and (listed is None or a in listed)]
        left = self._seen if listed is None else listed | (self._seen & set(live))
        self.over = (listed is not None and not listed) or left <= self._dead
        if self.over:
            # An environment that empties its list without a flag has cut everybody off.
            cut = [a for a in self.live if a not in self._dead]
            cut += [a for a in live if a not in cut]
            truncs = {**truncs, **dict.fromkeys(cut, True)}
            live = []
        self._set_live(live)
        return Outcome(obs, rewards, terms, truncs, infos)

    def _set_live(self, live: list[str]) -> None:
        slot = self.spec.slot
        live.sort(key=lambda a: slot.get(a, len(slot)))
        self.live = live
        self.full = self._lists and len(live) == len(slot) and all(a in slot for a in live)
        if self.full:
            order = list(self.env.agents)
            self.full = len(order) == len(slot)
            self.look = (self.env, order, order if order == list(self.spec.agents) else None)

    def _by_agent(self, part: Any, what: str) -> Mapping[str, Any]:
        if isinstance(part, Mapping):
            return part
        raise ResultError(
            f"environment {self.index}: the {what} must be a dict by agent, got "
            f"{type(part).__name__}",
            env=self.index,
        )

    def _flags(self, flags: Any, what: str) -> dict[str, bool]:
        out = {a: truth(v, self.index, a) for a, v in self._by_agent(flags, what).items()}
        if "__all__" in out:
            del out["__all__"]
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"environment {self.index}: '__all__' in its {what} is no agent and is "
                    "ignored; an episode ends when env.agents is empty",
                    stacklevel=2,
                )
        return out


def truth(value: Any, env: int, agent: str) -> bool:
    """A flag as a bool; one-element arrays are their element.

    Raises:
        ResultError: it is none.
    """
    if value is True or value is False:
        return value
    flag = _only(value)
    if flag is not None:
        return bool(flag)
    raise ResultError(
        f"environment {env}, agent {agent!r}: a flag must be a bool, got {value!r}",
        env=env, agent=agent,
    )  # fmt: skip


def number(value: Any, env: int, agent: str) -> float:
    """A reward as a float; a one-element array is its number.

    Raises:
        ResultError: it is none.
    """
    if type(value) is float:
        return value
    reward = _only(value)
    if reward is not None:
        return float(reward)
    raise ResultError(
        f"environment {env}, agent {agent!r}: a reward must be a number, got {value!r}",
        env=env, agent=agent,
    )  # fmt: skip


def _only(value: Any) -> Any:
    """The number that a value is, or the only one in it; None: it is something else."""
    try:
        array = np.asarray(value)
    except Exception:  # the caller names it
        return None
    return array.reshape(-1)[0] if array.size == 1 and array.dtype.kind in "biuf" else None


def _accepted(method: Any) -> frozenset[str]:
    """Which of seed and options a reset takes; third parties leave some out."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return frozenset(("seed", "options"))
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return frozenset(("seed", "options"))
    return frozenset(p.name for p in parameters) & {"seed", "options"}


def _nothing() -> None:
    """What an environment without ``close`` does when it is closed."""
