"""What is wrong with *my* environment? Plays it in several ways and says so in sentences.

    >>> print(seer.check(MyEnv))

An environment that passes gives the same results alone, beside copies of itself, in another
process and on another day, and none of what it reports needs guessing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from .checking.chance import generators, quiet
from .checking.lives import Watch
from .checking.play import (
    Moment,
    Player,
    Raised,
    Sampler,
    WrongForm,
    play,
    player,
    takes_seed,
)
from .checking.report import Findings, Problem, Report
from .checking.still import changed_spaces, close_rules, render_rules, space_rules, unused_rules
from .checking.twice import Again
from .errors import ConfigError
from .hardware import usable_cpus
from .types import whole
from .vector.config import choose
from .vector.describe import EnvDescription, describe, kind_of_env
from .vector.merge import merge
from .vector.sources import native_id, plain_name, resolve

__all__ = ["Problem", "Report", "check"]

_SECONDS, _AGAIN = 20.0, 5.0
"""How long the run that is watched goes on at most, and how much of it is played again, s."""

_LARGE, _MANY = 1 << 14, 200
"""Arrays of more than so many bytes are remembered by a digest, after so many moments all."""

_COPIES = 8


def check(env: Any, *, episodes: int = 3, steps: int = 200, seed: int = 0) -> Report:
    """Say in sentences what is wrong with an environment.

    It is made about ten times and played with random legal actions: once watched closely, then
    with the same seed and actions again, with the global random generators disturbed, with other
    seeds and none, in turn with another instance, reset in mid-episode, closed twice, rendered,
    and given an action that its mask forbids. The caller's global generators are left as they
    were. An environment that exits or never returns takes the caller with it.

    Args:
        env: what `seer.make_vec` takes: a factory, a class, an id, a PettingZoo module or
            ``"module:attribute"``; of PettingZoo's ParallelEnv or AECEnv, or Gymnasium's Env.
            With arguments: ``lambda: MyEnv(size=5)``.
        episodes: how many are played and compared, at least 2 for the rules about resets.
        steps: of an episode at most; an episode may also end by itself.
        seed: of the first reset. 0 also finds out whether 0 is taken for no seed.

    Returns:
        The report. ``report.ok`` where nothing is wrong, ``report.problems`` with a rule, a
        sentence (what is wrong, what to do, whether `seer.make_vec` copes), agent and step each;
        printed, it also tells what `seer.make_vec` would do with the environment. The rules:

        - agents: ``possible-agents agent-names agent-unannounced agents-list agent-unflagged
          agent-revives after-death step-after-end``; of turn-based ones ``selection dead-turn
          turn-missing reward-twice``
        - flags: ``flag-type flag-missing flag-all flags-merged``
        - spaces: ``space-missing space-object space-changes``
        - values: ``observation-missing observation-last observation-form observation-shape
          observation-dtype observation-bounds observation-nan reward-type reward-finite
          reward-missing info-form info-shared``
        - memory: ``observation-reused info-reused``
        - masks: ``mask-form mask-empty mask-ignored``
        - chance: ``global-random reset-seed seed seed-zero seeds-equal unseeded-equal
          episodes-repeat``
        - state: ``reset-midway shared-state action-altered``
        - the rest: ``environment raises return-form render render-mode close-twice close-early``

    Raises:
        ConfigError: an argument is out of range, or `env` is nothing that `seer.make_vec` takes.
        UnknownIdError: a string that names nothing.
    """
    for name, value, least in (("episodes", episodes, 1), ("steps", steps, 1), ("seed", seed, 0)):
        number = whole(value)
        if number is None or number < least:
            raise ConfigError(f"check({name}={value!r}): expected a whole number from {least}")
    start = time.perf_counter()
    source = resolve(env)
    findings, report = Findings(), Report(source.name)
    with quiet():
        _examine(env, source.factories[0], findings, report, (episodes, steps, seed))
    report.problems, report.notes = findings.problems(), list(findings.notes)
    report.seconds = time.perf_counter() - start
    return report


def _examine(
    source: Any, make: Callable[[], Any], findings: Findings, report: Report,
    size: tuple[int, int, int],
) -> None:  # fmt: skip
    """All rules, one after the other; those that need a run only if there was one."""
    _, steps, seed = size
    unused = _made(make, findings)
    if unused is None:
        return
    report.kind = kind_of_env(unused)
    metadata = getattr(unused, "metadata", None)
    report.name = plain_name(report.name, metadata if isinstance(metadata, Mapping) else {})
    unused_rules(unused, findings)
    # What is imported or compiled with the first one is not what is looked at from here on.
    Again.calm()
    changed: dict[str, str] = {}
    before = generators()
    first = _made(make, findings)
    _note_changes(before, "its construction", changed)
    if first is None:
        return
    spaces = space_rules(first, report.kind, findings)
    who = player(first, report.kind)
    if spaces is None:
        who.close()
        return
    agents, pairs = spaces
    report.agents = agents
    if not takes_seed(first):
        findings.add("reset-seed", "reset() takes no seed")
    actions = {agent: pair[1] for agent, pair in pairs.items()}
    watch = Watch(findings, report.kind, first, pairs)
    moments = _run(who, Sampler(actions, seed), findings, report, watch, changed, size)
    if moments:
        changed_spaces(first, report.kind, findings, pairs)
    _plan(source, first, findings, report)
    close_rules(first, findings)
    if moments and not {"raises", "return-form", "selection", "dead-turn"} & findings.rules:
        again = Again(findings, make, report.kind, actions, seed, _beginning(moments, findings))
        seeded = (lambda: again.chance(changed), again.seeds, again.neighbours, again.midway,
                  again.masks)  # fmt: skip
        for rules in seeded if "reset-seed" not in findings.rules else ():
            _guarded(rules, findings)
        if not any(moment.over for moment in moments):
            findings.note(f"no episode ended within {steps} steps, so nothing is known of how one "
                          "ends; try more steps")  # fmt: skip
    elif moments:
        findings.note("mend this first: what needs a second run was not checked")
    _guarded(lambda: render_rules(source, first, report.kind, findings), findings)


def _made(make: Callable[[], Any], findings: Findings) -> Any:
    """An environment; None where there is none."""
    try:
        env = make()
        kind_of_env(env)
    except ConfigError as error:
        findings.add("environment", _capital(str(error).rstrip(".")))
    except (Exception, SystemExit) as error:
        findings.add("raises", f"Its construction raised {type(error).__name__}: {error}")
    else:
        return env
    return None


def _run(
    who: Player, sampler: Sampler, findings: Findings, report: Report, watch: Watch,
    changed: dict[str, str], size: tuple[int, int, int],
) -> list[Moment]:  # fmt: skip
    """The run that is watched; what was seen before something went wrong."""
    episodes, steps, seed = size
    moments: list[Moment] = []
    until = time.perf_counter() + _SECONDS
    states = generators()
    try:
        for moment in play(who, seed, sampler, episodes, steps, until):
            states = _note_changes(states, "step" if moment.step else "reset", changed)
            watch.see(moment)
            if moments:  # what it told needs no more to be watched
                moments[-1].slim(_LARGE if len(moments) < _MANY else 0)
            moments.append(moment)
    except WrongForm as error:
        rule = "selection" if "agent_selection" in str(error) else "return-form"
        findings.add(rule, _capital(str(error)), episode=who.episode, step=who.steps)
    except Raised as error:
        dead = bool(moments and moments[-1].selected and not moments[-1].live)
        findings.add(
            "dead-turn" if dead and error.call == "step" else "raises",
            _capital(str(error)) + (", in the last turn of an agent that has ended" if dead else
                                    ", though every action was legal" if who.steps else ""),
            episode=who.episode, step=who.steps,
        )  # fmt: skip
    if time.perf_counter() > until:
        findings.note(f"it is slow: after {_SECONDS:g} s no more than {len(moments)} resets and "
                      "steps were played")  # fmt: skip
    watch.finish()
    report.episodes = who.episode + 1
    report.steps = sum(moment.step > 0 for moment in moments)
    stepping = [moment.seconds for moment in moments if moment.step]
    if stepping:
        report.step_seconds = statistics.median(stepping), max(stepping)
        report.reset_seconds = statistics.median(m.seconds for m in moments if not m.step)
    return moments


def _beginning(moments: list[Moment], findings: Findings) -> list[Moment]:
    """As much of a run as can be played again and again."""
    spent = 0.0
    for k, moment in enumerate(moments):
        spent += moment.seconds
        if spent > _AGAIN and k > 1:
            findings.note(f"it is slow: only the first {k} of {len(moments)} resets and steps "
                          "were compared with other runs")  # fmt: skip
            return moments[:k]
    return moments


def _note_changes(before: dict[str, Any], call: str, changed: dict[str, str]) -> dict[str, Any]:
    now = generators()
    for name, state in now.items():
        if name in before and state != before[name]:
            changed.setdefault(name, call)
    return now


def _plan(source: Any, env: Any, findings: Findings, report: Report) -> None:
    """What make_vec would do with it."""
    try:
        description: EnvDescription = describe(env)
        spec = merge([description], name=report.name)
    except ConfigError as error:
        if not findings.rules & {"space-missing", "possible-agents"}:
            findings.add("environment", _capital(str(error).rstrip(".")))
        return
    report.agents = spec.agents
    report.groups = {group.name: group.agents for group in spec.groups}
    report.layout = "flat" if report.kind == "gymnasium" else "dict"
    if native_id(source):
        report.backend = "the engine: native worlds on threads of this process"
    elif report.step_seconds is not None:
        cost = max(report.step_seconds[0], 1e-9)
        report.backend = choose([cost] * _COPIES, usable_cpus()).explain()


def _guarded(rules: Callable[[], None], findings: Findings) -> None:
    """Rules, during which the environment may also fail."""
    try:
        rules()
    except (Raised, WrongForm) as error:
        findings.add("raises", _capital(str(error)) + ", when it was played again")
    except (Exception, SystemExit) as error:
        findings.add("raises", f"When it was made or played again, it raised "
                     f"{type(error).__name__}: {error}")  # fmt: skip


def _capital(text: str) -> str:
    """A sentence; names of the code stay as they are."""
    name = text.split(" ", 1)[0]
    return text if "_" in name or "(" in name else text[:1].upper() + text[1:]
