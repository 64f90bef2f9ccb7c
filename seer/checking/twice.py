"""The rules that show when an environment is played again: chance, seeds, shared state, masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..vector.sampling import draw
from .chance import disturb
from .compare import Digest, difference
from .play import (
    Moment,
    Player,
    Raised,
    Sampler,
    WrongForm,
    mask_of,
    play,
    player,
    truth,
)
from .report import Findings

__all__ = ["Again"]

_CALM = 1234
"""What the global generators are set to wherever they must not make a difference."""

_SHORT = 50
_TRIES = 5
"""How many other seeds must agree before that is no accident."""

_LEGAL = 6
"""How many legal actions a forbidden one is compared with."""

Place = tuple[int, str]
"""Number of the moment and a text: where two runs differ, and how."""


class Again:
    """Plays an environment again, in several ways, and compares.

    Args:
        findings: what is found goes there.
        make: makes a new environment.
        kind: of the environment.
        actions: agent -> action space.
        seed: of the first run.
        moments: of the first run, which began with the global generators as `calm` sets them.
    """

    def __init__(
        self, findings: Findings, make: Callable[[], Any], kind: str, actions: Mapping[str, Any],
        seed: int, moments: Sequence[Moment],
    ) -> None:  # fmt: skip
        self._findings, self._make, self._kind = findings, make, kind
        self._actions, self._seed, self._moments = actions, seed, moments
        self.repeats = True
        self._global = False

    @staticmethod
    def calm() -> None:
        """Set the global generators to what every compared run begins with."""
        disturb(_CALM)

    def chance(self, changed: Mapping[str, str]) -> None:
        """The same seed again, with and without trouble in the global generators.

        Args:
            changed: global generator -> in which call the first run changed it.
        """
        place = self._replay(self._seed)
        self.repeats = place is None
        if place is not None:
            self._not_repeated(place)
        disturbed = None if place is not None else self._replay(self._seed, between=disturb)
        if disturbed is not None or changed:
            self._global = True
            which = " and ".join(changed) or "a global generator"
            calls = ", ".join(dict.fromkeys(changed.values()))
            what = f"It {'draws from' if disturbed else 'changes'} {which}"
            what += f" (in {calls})" if calls else ""
            if disturbed is not None:
                what += f": with the same seed and other numbers in there, {self._at(disturbed)}"
            self._findings.add("global-random", what)

    def _not_repeated(self, place: Place) -> None:
        if self._seed == 0:
            first = self._record(1, Sampler(self._actions, 1), 2, _SHORT)
            if first and self._replay(1, moments=first) is None:
                self._findings.add(
                    "seed-zero", "Two runs with seed 1 are equal, two with seed 0 are not: 0 is "
                    f"taken for no seed ({self._at(place)})",
                )  # fmt: skip
                return
        what = f"Of two runs with the same seed and actions, {self._at(place)}"
        self._findings.add("seed", what)

    def seeds(self) -> None:
        """Other seeds, and none."""
        if not self.repeats:
            return
        other = self._other_seed()
        # No longer than what other seeds were compared by, or it might see more than they could.
        steps = min(_SHORT, max(m.step for m in self._moments if m.episode == 0))
        unseeded = self._record(None, Sampler(self._actions, 2), 1, steps, trouble=1)
        alike = all(
            self._replay(None, moments=unseeded, trouble=k + 2) is None for k in range(_TRIES)
        )
        if other is None and alike:
            self._findings.note("nothing random was seen: seeds change nothing, and need not")
        elif other is None:
            what = f"Seeds {self._seed} to {self._seed + _TRIES} give the same run"
            self._findings.add("seeds-equal", f"{what}, though without a seed runs differ")
        elif alike and not self._global:
            what = "New environments that are reset without a seed all give the same run"
            self._findings.add("unseeded-equal", what)
        if other == 0:
            self._episodes()

    def _other_seed(self) -> int | None:
        """Number of the moment where a run with another seed differs; None: none does."""
        for k in range(1, _TRIES + 1):
            # Where little is left to chance, two seeds may happen to agree.
            moments = self._moments if k == 1 else self._moments[: 2 * _SHORT]
            place = self._replay(self._seed + k, moments=moments)
            if place is not None:
                return place[0]
        return None

    def _episodes(self) -> None:
        """Whether episodes begin differently, as seeds make them do."""
        self.calm()
        who = player(self._make(), self._kind)
        try:
            first = who.reset(self._seed).obs
            for _ in range(_TRIES):
                if difference(first, who.reset(None).obs) is not None:
                    return
        finally:
            who.close()
        what = "All episodes that are begun without a seed begin as the seeded one before them"
        self._findings.add("episodes-repeat", what)

    def neighbours(self) -> None:
        """The same run beside another instance that is stepped in turn with it."""
        if not self.repeats or self._global:
            return
        other = player(self._make(), self._kind)
        steps = play(other, self._seed + 77, Sampler(self._actions, 3), 10**6, 10**6)

        def between(_: int) -> None:
            try:
                next(steps, None)
            except (Raised, WrongForm) as error:
                self._findings.note(f"beside another instance, that one failed: {error}")

        moments = [m for m in self._moments if m.episode < 2]
        try:
            place = self._replay(self._seed, moments=moments, between=between)
        finally:
            other.close()
        if place is not None:
            what = "Of two runs, one alone and one in turn with another instance, "
            self._findings.add("shared-state", what + self._at(place))

    def midway(self) -> None:
        """A reset in the middle of an episode, and a step after the end."""
        if not self.repeats:
            return
        first = self._moments[:1]
        for rule, steps, what in (
            ("reset-midway", 1, "After a step and a reset with the same seed"),
            ("step-after-end", None, "After a step after the end and a reset with the same seed"),
        ):
            moments = [m for m in self._moments if m.episode == 0]
            if steps is None and (self._kind != "parallel" or not moments[-1].over):
                continue
            self.calm()
            who = player(self._make(), self._kind)
            try:
                self._follow(who, self._seed, moments[: 2 if steps else None])
                if steps is None:
                    self._step_after_end(who)
                self.calm()
                again = who.reset(self._seed)
                found = _compare(first[0], again)
                if found is not None and not self._global:
                    self._findings.add(rule, f"{what} the first observations are others: {found}")
            except (Raised, WrongForm) as error:
                self._findings.add(rule, f"{what}: {error}")
            finally:
                who.close()

    def _step_after_end(self, who: Player) -> None:
        try:
            result = who.env.step({})
        except Exception:
            return
        parts = result if isinstance(result, tuple) else ()
        names = [set(part) - {"__all__"} for part in parts if isinstance(part, Mapping)]
        told = [sorted(map(str, part)) for part in names if part]
        if told:
            self._findings.add("step-after-end", "The episode is over, and step({}) goes on to "
                               f"report {told[0]}")  # fmt: skip

    def masks(self) -> None:
        """What the environment does with an action that its mask forbids."""
        if not self.repeats or self._global:
            return
        for at, moment in enumerate(self._moments[:_SHORT]):
            if moment.episode > 0:
                return
            for agent in moment.live:
                mask = mask_of(moment, agent)
                space = self._actions.get(agent)
                size = getattr(space, "n", None)
                if (
                    mask is None
                    or isinstance(mask, Digest)
                    or size is None
                    or isinstance(size, np.ndarray)
                ):
                    continue
                legal = np.flatnonzero(np.asarray(mask))
                forbidden = np.flatnonzero(np.asarray(mask) == 0)
                if legal.size and forbidden.size and np.size(mask) == size:
                    self._forbidden(at, agent, int(forbidden[0]), legal.tolist())
                    return

    def _forbidden(self, at: int, agent: str, action: int, legal: Sequence[int]) -> None:
        start = getattr(self._actions[agent], "start", 0)
        moment = self._moments[at]
        others = {a: draw(self._actions[a], mask_of(moment, a)) for a in moment.live if a != agent}
        try:
            after = self._after(at, {**others, agent: start + action})
        except (Raised, WrongForm):
            return  # refused
        flags = {**after.terminations, **after.truncations}
        punished = any(_negative(r) for r in after.rewards.values())
        if after.over or any(map(truth, flags.values())) or punished:
            return
        if self._kind == "aec" and (after.selected == agent or _told(after, agent)):
            return  # it must choose again
        for k in legal[:_LEGAL]:
            if _compare(after, self._after(at, {**others, agent: start + k})) is None:
                return  # replaced by a legal one
        self._findings.add(
            "mask-ignored", f"Action {start + action} of agent {agent!r} was carried out though "
            "its mask forbids it: no error, no end, no negative reward", agent=agent,
            episode=moment.episode, step=moment.step + 1,
        )  # fmt: skip

    def _after(self, at: int, actions: dict[str, Any]) -> Moment:
        """What follows when at a moment of the first run other actions are taken."""
        self.calm()
        who = player(self._make(), self._kind)
        try:
            self._follow(who, self._seed, self._moments[: at + 1])
            return who.step(actions)
        finally:
            who.close()

    # ---- playing again

    def _record(
        self, seed: int | None, sampler: Sampler, episodes: int, steps: int, trouble: int = 0
    ) -> list[Moment]:
        disturb(_CALM + trouble)
        who = player(self._make(), self._kind)
        try:
            return list(play(who, seed, sampler, episodes, steps))
        except (Raised, WrongForm):
            return []
        finally:
            who.close()

    def _replay(
        self, seed: int | None, *, moments: Sequence[Moment] | None = None,
        between: Callable[[int], None] | None = None, trouble: int = 0,
    ) -> Place | None:  # fmt: skip
        """Play the same actions in a new environment; where it differs first."""
        moments = self._moments if moments is None else moments
        disturb(_CALM + trouble)
        if between is disturb:
            disturb(5)
        who = player(self._make(), self._kind)
        at = 0
        try:
            for at, moment in enumerate(moments):
                if between is not None:
                    between(at + 10)
                again = self._one(who, seed if at == 0 else None, moment)
                found = _compare(moment, again)
                if found is not None:
                    return at, found
                found = difference(moment.infos, again.infos, "infos")
                if found is not None and between is None and seed == self._seed:
                    self._findings.note(f"infos differ between two runs with the same seed: "
                                        f"{found}")  # fmt: skip
        except (Raised, WrongForm) as error:
            return at, str(error)
        finally:
            who.close()
        return None

    def _follow(self, who: Player, seed: int | None, moments: Sequence[Moment]) -> None:
        for at, moment in enumerate(moments):
            self._one(who, seed if at == 0 else None, moment)

    def _one(self, who: Player, seed: int | None, moment: Moment) -> Moment:
        return who.reset(seed) if moment.step == 0 else who.step(moment.actions)

    def _at(self, place: Place) -> str:
        at, text = place
        moment = self._moments[min(at, len(self._moments) - 1)]
        when = "the reset" if moment.step == 0 else f"step {moment.step}"
        return f"in {when} of episode {moment.episode} {text}"


def _compare(a: Moment, b: Moment) -> str | None:
    for name in ("obs", "rewards", "terminations", "truncations", "agents", "selected"):
        found = difference(getattr(a, name), getattr(b, name), name)
        if found is not None:
            return found
    return None


def _negative(reward: Any) -> bool:
    try:
        return bool(np.asarray(reward).sum() < 0)
    except (TypeError, ValueError):
        return False


def _told(moment: Moment, agent: str) -> bool:
    """A turn-based environment made the agent's move without it."""
    return moment.selected is None and agent in moment.obs
