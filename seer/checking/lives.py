"""The rules about who lives: agents, their ends, and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .play import Moment, truth
from .report import Findings
from .values import Values

__all__ = ["Watch"]


class Watch(Values):
    """Looks at everything that an environment reports, moment by moment.

    Args:
        findings: what is found goes there.
        kind: of the environment.
        env: the environment.
        spaces: agent -> (observation space, action space).
    """

    def __init__(
        self, findings: Findings, kind: str, env: Any, spaces: Mapping[str, tuple[Any, Any]]
    ) -> None:
        super().__init__(findings, kind, spaces)
        self._env = env
        self._dead: dict[str, int] = {}
        self._told: dict[str, float] = {}  # to whom a reward was told, and not yet acted
        self._ends: list[bool] = []  # of each end, whether both flags were set

    def see(self, now: Moment) -> None:
        """Look at one moment. What is wrong is added to the findings."""
        last = self._last if now.step else None
        if now.step == 0:
            self._dead, self._told = {}, {}
        self._life(last, now)
        if self._kind == "aec":
            self._turns(last, now)
        super().see(now)

    def finish(self) -> None:
        """Look at what only shows at the end."""
        if self._ends and all(self._ends):
            self._findings.add(
                "flags-merged",
                f"At {'its only end' if len(self._ends) == 1 else f'all {len(self._ends)} ends'} "
                "both flags, terminated and truncated, were set, as if they were the same",
            )

    def _life(self, last: Moment | None, now: Moment) -> None:
        ended = {
            a for flags in (now.terminations, now.truncations) for a, f in flags.items() if truth(f)
        } - {"__all__"}
        reported = [a for a in {**now.obs, **now.rewards, **now.terminations} if a != "__all__"]
        for agent in {**dict.fromkeys(reported), **dict.fromkeys(now.agents or ())}:
            if agent not in self._spaces:
                self._add(
                    "agent-unannounced",
                    f"Agent {agent!r} appears, which possible_agents doesn't name",
                    now,
                    agent,
                )
        if self._kind == "parallel":
            self._parallel_life(last, now, ended, reported)
        elif self._kind == "gymnasium" and ended:
            self._note_end(now, ended)
        if self._kind == "aec" and ended - self._dead.keys():
            self._note_end(now, ended - self._dead.keys())
        self._dead.update((a, now.step) for a in ended if a not in self._dead)

    def _note_end(self, now: Moment, ended: set[str]) -> None:
        for agent in ended:
            self._ends.append(
                truth(now.terminations.get(agent)) and truth(now.truncations.get(agent))
            )

    def _parallel_life(
        self, last: Moment | None, now: Moment, ended: set[str], reported: Sequence[str]
    ) -> None:
        before = set(last.live) if last is not None else set()
        listed = now.agents
        if listed is None:
            self._add("agents-list", "The environment has no list `agents`", now)
        elif now.step == 0 and not listed:
            self._add("agents-list", "The list agents is empty after reset", now)
        for agent in sorted(self._dead.keys() & set(reported)):
            since = f"Agent {agent!r} ended in step {self._dead[agent]}"
            if agent in now.obs and agent not in ended and agent in (listed or now.obs):
                self._add("agent-revives", f"{since} and is observed again, alive", now, agent)
                del self._dead[agent]
            else:
                self._add("after-death", f"{since} and is reported again", now, agent)
        self._note_end(now, ended - self._dead.keys())
        for agent in sorted(ended & set(listed or ())):
            self._add(
                "agents-list",
                f"Agent {agent!r} has ended and is still in the list agents",
                now,
                agent,
            )
        if last is not None and listed is not None and last.agents is not None:
            for agent in [a for a in last.agents if a not in listed and a not in ended]:
                if agent not in self._dead:
                    self._add(
                        "agent-unflagged",
                        f"Agent {agent!r} left the list agents and was never flagged",
                        now,
                        agent,
                    )
        for agent in sorted(ended & before - now.obs.keys()):
            self._add(
                "observation-last", f"Agent {agent!r} ends without a last observation", now, agent
            )
        for agent in [
            a for a in listed or () if a not in {**now.obs, **self._dead} and a not in ended
        ]:
            self._add(
                "observation-missing",
                f"Agent {agent!r} is in the list agents and has no observation",
                now,
                agent,
            )
        for agent in sorted(before):
            if agent not in now.terminations or agent not in now.truncations:
                which = "terminations" if agent not in now.terminations else "truncations"
                self._add(
                    "flag-missing",
                    f"The {which} have no entry for agent {agent!r}, which acted",
                    now,
                    agent,
                )
            if agent not in now.rewards:
                self._add(
                    "reward-missing",
                    f"The rewards have no entry for agent {agent!r}, which acted",
                    now,
                    agent,
                )

    def _turns(self, last: Moment | None, now: Moment) -> None:
        """Turn-based: last turns, and rewards that are told once."""
        if last is None:
            if now.over:
                self._add("agents-list", "The list agents is empty after reset", now)
            return
        mover = last.selected
        assert mover is not None  # the episode was not over
        ended = not last.live
        listed = now.agents or ()
        if ended and mover in listed and _set_of(self._env, mover):
            self._add(
                "dead-turn",
                f"Agent {mover!r} has ended and is still in the list agents "
                "after its last turn, step(None)",
                now,
                mover,
            )
        for agent in [a for a in last.agents or () if a not in listed]:
            if agent != mover or not ended:
                cumulative = getattr(self._env, "_cumulative_rewards", {})
                lost = _float(cumulative.get(agent)) if isinstance(cumulative, Mapping) else 0.0
                and_so = f", and its last reward, {lost:g}, is never read" if lost else ""
                self._add(
                    "turn-missing",
                    f"Agent {agent!r} left the list agents without a last turn{and_so}",
                    now,
                    agent,
                )
        if now.live and now.selected in self._dead:
            since = f"Agent {now.selected!r} ended in step {self._dead.pop(now.selected)}"
            self._add("agent-revives", f"{since} and is to act again", now, now.selected)
        told = self._told.pop(mover, 0.0)
        if not ended and told and mover in listed:
            self._told_again(now, mover, told)
        if now.selected is not None:
            self._told[now.selected] = _float(now.rewards.get(now.selected))

    def _told_again(self, now: Moment, agent: str, told: float) -> None:
        cumulative = getattr(self._env, "_cumulative_rewards", None)
        rewards = getattr(self._env, "rewards", None)
        if not isinstance(cumulative, Mapping) or not isinstance(rewards, Mapping):
            return
        new, kept = _float(rewards.get(agent)), _float(cumulative.get(agent))
        if kept != new and np.isclose(kept, new + told):
            self._add(
                "reward-twice",
                f"Agent {agent!r} was told a reward of {told:g} by last(), "
                "and its cumulative reward still has it after the agent's move",
                now,
                agent,
            )


def _set_of(env: Any, agent: str) -> bool:
    return any(truth(getattr(env, name, {}).get(agent)) for name in ("terminations", "truncations"))


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
