"""What `seer.check` says: problems, and the report that is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .words import RULES

__all__ = ["Findings", "Problem", "Report"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Attributes:
        rule: which rule of `RULES` is broken.
        sentence: what is wrong, what to do, and what `seer.make_vec` makes of it.
        agent: whom it was seen at first; None where it concerns no agent.
        episode, step: when it was seen first; step 0 is the reset. None: not while playing.
        copes: `seer.make_vec` gives right results nevertheless.
        count: how often it was seen.
    """

    rule: str
    sentence: str
    agent: str | None = None
    step: int | None = None
    episode: int | None = None
    copes: bool = False
    count: int = 1

    def __str__(self) -> str:
        call = "reset" if self.step == 0 else f"step {self.step}"
        when = "" if self.step is None else f" (episode {self.episode}, {call})"
        return f"[{self.rule}]{when} {self.sentence}"


@dataclass
class Report:
    """What :func:`seer.check` found. True where it found nothing.

    Attributes:
        name: of the environment.
        problems: everything that is wrong.
        notes: what could not be checked, and what is worth knowing.
        kind: "parallel", "aec" or "gymnasium"; "" where it is none of them.
        agents: its agents in order.
        groups: group -> its agents, as `seer.make_vec` puts them together.
        layout: that `seer.make_vec` uses by default.
        backend: what it would choose for eight copies, and why.
        episodes, steps: how many were played and recorded.
        step_seconds: median and longest time of a step, s; None where none was made.
        reset_seconds: median time of a reset, s.
        seconds: what the whole check took, s.
    """

    name: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kind: str = ""
    agents: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    layout: str = ""
    backend: str = ""
    episodes: int = 0
    steps: int = 0
    step_seconds: tuple[float, float] | None = None
    reset_seconds: float | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"seer.check: {self.name}"]
        if self.step_seconds is not None and self.reset_seconds is not None:
            lines.append(
                f"  played {self.episodes} episode{'s' * (self.episodes != 1)}, {self.steps} "
                f"steps: {_time(self.step_seconds[0])} a step (longest "
                f"{_time(self.step_seconds[1])}), {_time(self.reset_seconds)} a reset"
            )
        if self.layout:
            lines += self._plan()
        for number, problem in enumerate(self.problems, 1):
            lines.append(f"  {number}. {problem}")
        lines += [f"  note: {note}" for note in self.notes]
        count = len(self.problems)
        lines.append("  Nothing wrong was found." if self.ok else
                     f"  {count} problem{'s' * (count > 1)}.")  # fmt: skip
        return "\n".join(lines)

    def _plan(self) -> list[str]:
        kinds = {"parallel": "a ParallelEnv", "aec": "an AECEnv: one agent acts at a time",
                 "gymnasium": "a Gymnasium Env"}  # fmt: skip
        groups = ", ".join(f"{name} ({len(who)})" for name, who in list(self.groups.items())[:6])
        more = ", …" if len(self.groups) > 6 else ""
        count = len(self.agents)
        names = ", ".join(self.agents[:4]) + (", …" if count > 4 else "")
        return [
            f"  seer.make_vec takes it as {kinds[self.kind]}; {count} agent{'s' * (count != 1)} "
            f"({names}); groups {groups}{more}; layout {self.layout!r}",
            f"  eight copies would be run by {self.backend}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        from dataclasses import asdict

        return {"ok": self.ok, **asdict(self)}


class Findings:
    """Collects problems: of each rule the first, and how often it was broken after that."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, str | None, int | None, int | None]] = {}
        self._count: dict[str, int] = {}
        self._agents: dict[str, dict[str, None]] = {}
        self.notes: dict[str, None] = {}

    def add(
        self, rule: str, what: str, *, agent: str | None = None, episode: int | None = None,
        step: int | None = None,
    ) -> None:  # fmt: skip
        """Note that a rule was broken.

        Args:
            rule: a key of `RULES`.
            what: a sentence without its full stop.
            agent: who.
            episode, step: when.
        """
        self._first.setdefault(rule, (what, agent, episode, step))
        self._count[rule] = self._count.get(rule, 0) + 1
        if agent is not None:
            self._agents.setdefault(rule, {}).setdefault(agent)

    def note(self, what: str) -> None:
        """Something to tell that is no problem."""
        self.notes.setdefault(what)

    @property
    def rules(self) -> set[str]:
        """Those that were broken."""
        return set(self._first)

    def problems(self) -> list[Problem]:
        """All of them, in the order of `RULES`."""
        out = []
        for rule, text in RULES.items():
            if rule not in self._first:
                continue
            what, agent, episode, step = self._first[rule]
            others = len(self._agents.get(rule, ())) - 1
            count = self._count[rule]
            also = f" and {others} more agent{'s' * (others > 1)}" if others > 0 else ""
            times = f" ({count} times{also})" if count > 1 else ""
            stop = "" if what.endswith("?") and not times else "."
            sentence = f"{what}{times}{stop} {text.todo}. seer.make_vec {text.vec}."
            out.append(Problem(rule, sentence, agent, step, episode, text.copes, count))
        return out


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
