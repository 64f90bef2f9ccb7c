"""Plays an environment as it is, without mending anything, and writes down all it reports."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..vector.infos import copy_info
from ..vector.sampling import draw
from .compare import difference, slimmed

__all__ = [
    "Moment", "Player", "Raised", "Sampler", "WrongForm", "mask_of", "play",
    "player", "takes_seed", "truth",
]  # fmt: skip

FIELDS = ("obs", "rewards", "terminations", "truncations", "infos")


class Raised(Exception):  # noqa: N818 - it carries an error
    """What an environment raised, and in which call."""

    def __init__(self, call: str, error: BaseException) -> None:
        super().__init__(call, error)
        self.call, self.error = call, error

    def __str__(self) -> str:
        return f"{self.call}() raised {type(self.error).__name__}: {self.error}".rstrip(": ")


class WrongForm(Exception):  # noqa: N818
    """What came back is not of the form that was to come; says how."""


@dataclass
class Moment:
    """What was reported by one reset or step.

    Attributes:
        episode, step: from 0; step 0 is the reset.
        actions: agent -> action that led here; None for the turn of an ended agent.
        obs, rewards, terminations, truncations, infos: by agent, as reported, copied.
        agents: the environment's list afterwards; None where it has none.
        live: who must act next.
        over: the episode has ended.
        selected: in a turn-based environment whose turn it is.
        seconds: what the call took.
        raw: what was reported, not copied.
        altered: what the environment changed in the actions that it was given.
    """

    episode: int
    step: int
    actions: dict[str, Any]
    obs: dict[str, Any]
    rewards: dict[str, Any]
    terminations: dict[str, Any]
    truncations: dict[str, Any]
    infos: dict[str, Any]
    agents: tuple[str, ...] | None
    live: tuple[str, ...]
    over: bool
    selected: str | None
    seconds: float
    raw: tuple[Any, ...] = ()
    altered: str | None = None

    def slim(self, above: int) -> None:
        """Keep of what was reported only what comparing needs; of arrays larger than `above`
        bytes a digest.
        """
        self.raw = ()
        self.obs, self.infos = slimmed(self.obs, above), slimmed(self.infos, above)


class Player:
    """An environment and where it is in its episodes."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.episode, self.steps = -1, 0
        self._dead: set[str] = set()
        self._seeded = takes_seed(env)

    def reset(self, seed: int | None) -> Moment:
        """Begin an episode.

        Raises:
            Raised, WrongForm: the environment did, or returned something else.
        """
        self.episode += 1
        self.steps = 0
        self._dead = set()
        start = time.perf_counter()
        result = self._call("reset", self._reset, seed)
        return self._moment({}, result, time.perf_counter() - start, first=True)

    def step(self, actions: dict[str, Any]) -> Moment:
        """Give the live agents their actions; errors as in `reset`."""
        self.steps += 1
        given = copy.deepcopy(actions)
        start = time.perf_counter()
        result = self._call("step", self._step, given)
        moment = self._moment(actions, result, time.perf_counter() - start, first=False)
        moment.altered = difference(actions, given, "actions")
        return moment

    def close(self) -> None:
        """Close the environment; what it raises is nobody's concern here."""
        with suppress(Exception, SystemExit):
            self.env.close()

    def _call(self, name: str, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except (Exception, SystemExit) as error:
            raise Raised(name, error) from error

    def _reset(self, seed: int | None) -> Any:
        if seed is None or not self._seeded:
            return self.env.reset()
        return self.env.reset(seed=seed)

    def _step(self, actions: dict[str, Any]) -> Any:
        return self.env.step(actions)

    def _moment(self, actions: dict[str, Any], result: Any, seconds: float, first: bool) -> Moment:
        parts = self._by_agent(result, first)
        agents = getattr(self.env, "agents", None)
        listed = tuple(agents) if agents is not None else None
        obs, rewards, terms, truncs, infos = (copy_info(dict(part)) for part in parts)
        ended = {a for flags in (terms, truncs) for a, f in flags.items() if truth(f)}
        self._dead = (self._dead - set(obs)) | ended
        live, over, selected = self._next(obs, listed, ended, first)
        return Moment(
            self.episode, self.steps, actions, obs, rewards, terms, truncs, infos, listed, live,
            over, selected, seconds, parts,
        )  # fmt: skip

    def _by_agent(self, result: Any, first: bool) -> tuple[Any, ...]:
        count = 2 if first else 5
        call = "reset()" if first else "step()"
        if not isinstance(result, tuple) or len(result) != count:
            got = f"a tuple of {len(result)}" if isinstance(result, tuple) else _named(result)
            raise WrongForm(f"{call} must return {count} values, got {got}")
        for name, part in zip(("observations", "infos") if first else FIELDS, result, strict=True):
            if not isinstance(part, Mapping):
                raise WrongForm(f"the {name} of {call} must be a dict by agent, got {_named(part)}")
        return (result[0], {}, {}, {}, result[1]) if first else result

    def _next(
        self, obs: dict[str, Any], listed: tuple[str, ...] | None, ended: set[str], first: bool
    ) -> tuple[tuple[str, ...], bool, str | None]:
        """Who must act next, whether it is over, and whose turn it is."""
        kept = bool(listed) or (listed is not None and not first)
        live = tuple(a for a in obs if a not in ended and (not kept or a in (listed or ())))
        left = set(listed or ()) if kept else set(live)
        return live, not first and left <= self._dead, None


class AecPlayer(Player):
    """One move of the selected agent is a step, also the turn of one that has ended."""

    def _step(self, actions: dict[str, Any]) -> Any:
        (action,) = actions.values()
        return self.env.step(action)

    def _by_agent(self, result: Any, first: bool) -> tuple[Any, ...]:
        if not self.env.agents:
            return {}, {}, {}, {}, {}
        agent = self.env.agent_selection
        if agent not in self.env.agents:
            raise WrongForm(
                f"agent_selection is {agent!r}, which is not in agents {list(self.env.agents)}"
            )
        last = self._call("last", self.env.last)
        return tuple({agent: value} for value in last)

    def _next(
        self, obs: dict[str, Any], listed: tuple[str, ...] | None, ended: set[str], first: bool
    ) -> tuple[tuple[str, ...], bool, str | None]:
        if not listed:
            return (), True, None
        selected: str = self.env.agent_selection
        return (() if selected in ended else (selected,)), False, selected


class GymnasiumPlayer(Player):
    """A single agent."""

    name = "agent_0"

    def _step(self, actions: dict[str, Any]) -> Any:
        return self.env.step(actions[self.name])

    def _by_agent(self, result: Any, first: bool) -> tuple[Any, ...]:
        count = 2 if first else 5
        if not isinstance(result, tuple) or len(result) != count:
            got = f"a tuple of {len(result)}" if isinstance(result, tuple) else _named(result)
            raise WrongForm(
                f"{'reset' if first else 'step'}() must return {count} values, got {got}"
            )
        each = [{self.name: value} for value in result]
        return (each[0], {}, {}, {}, each[1]) if first else tuple(each)

    def _next(
        self, obs: dict[str, Any], listed: tuple[str, ...] | None, ended: set[str], first: bool
    ) -> tuple[tuple[str, ...], bool, str | None]:
        return (() if ended else (self.name,)), bool(ended), None


def player(env: Any, kind: str) -> Player:
    """Who plays an environment of that kind."""
    return {"parallel": Player, "aec": AecPlayer, "gymnasium": GymnasiumPlayer}[kind](env)


class Sampler:
    """Random legal actions from copies of an environment's spaces.

    Args:
        spaces: agent -> action space.
        seed: of what is drawn.
    """

    def __init__(self, spaces: Mapping[str, Any], seed: int) -> None:
        self._spaces: dict[str, Any] = {}
        for k, (agent, space) in enumerate(spaces.items()):
            self._spaces[agent] = copy.deepcopy(space)
            self._spaces[agent].seed(seed + k)

    def __call__(self, moment: Moment) -> dict[str, Any]:
        """An action for each who must act."""
        if moment.selected is not None and not moment.live:
            return {moment.selected: None}
        return {
            agent: self._one(self._spaces[agent], mask_of(moment, agent))
            for agent in moment.live
            if agent in self._spaces
        }

    @staticmethod
    def _one(space: Any, mask: Any) -> Any:
        size = getattr(space, "n", None)
        if mask is not None and isinstance(size, (int, np.integer)) and np.size(mask) != size:
            mask = None  # a rule tells that it doesn't fit
        return draw(space, mask)


def mask_of(moment: Moment, agent: str) -> Any:
    """The agent's action mask, from its observation or its info; None where it has none."""
    for part in (moment.obs.get(agent), moment.infos.get(agent)):
        if isinstance(part, Mapping) and part.get("action_mask") is not None:
            return part["action_mask"]
    return None


def takes_seed(env: Any) -> bool:
    """Whether its reset can be given a seed."""
    try:
        parameters = inspect.signature(env.reset).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


def play(
    who: Player, seed: int | None, sampler: Sampler, episodes: int, steps: int,
    until: float = float("inf"),
) -> Iterator[Moment]:  # fmt: skip
    """Play episodes, the first from a seed, each to its end or for `steps` steps.

    Args:
        who: plays.
        seed: of the first reset.
        sampler: chooses actions.
        episodes, steps: how many, and how long at most.
        until: of `time.perf_counter`; nothing is begun after it, s.

    Raises:
        Raised, WrongForm: the environment did, or returned something else.
    """
    for episode in range(episodes):
        moment = who.reset(seed if episode == 0 else None)
        yield moment
        for _ in range(steps):
            if moment.over or time.perf_counter() > until:
                break
            moment = who.step(sampler(moment))
            yield moment
        if time.perf_counter() > until:
            return


def truth(flag: Any) -> bool:
    """A flag as a bool; False for what is none, which a rule tells."""
    try:
        return bool(flag)
    except Exception:
        return False


def _named(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
