"""What every vector of environments promises, checked against loops written by hand.

    check(make, plain, kind="parallel")

`make(**options)` makes a new vector, with the options of `seer.make_vec` that are given to it;
`plain(i)` makes its environment number i alone. Environments must be deterministic once seeded.
The functions below are the promises, one each; `PROMISES` lists them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from vector_faces import FACES, Face
from vector_plain import LOOPS, Loop, Record, arrays_of, same

from seer.errors import ActionError, ClosedError, ConfigError, StateError, UnknownAgentError

MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


@dataclass
class Case:
    """What is checked: how vectors and single environments are made, in which layout."""

    make: Callable[..., Any]
    plain: Callable[[int], Any]
    kind: str
    layout: str
    steps: int

    def vector(self, mode: str = "next_step", **options: Any) -> Any:
        return self.make(layout=self.layout, autoreset=mode, **options)

    def run(self, mode: str = "next_step", **options: Any) -> Run:
        return Run(self, mode, self.vector(mode, **options))


class Run:
    """A vector and the loops that say what it must show, side by side."""

    def __init__(self, case: Case, mode: str, vec: Any) -> None:
        self.vec, self.mode, self.case = vec, mode, case
        self.face: Face = FACES[case.layout, case.kind == "aec"](vec)
        self.count: int = self.face.count
        self.loops: list[Loop] = [LOOPS[case.kind](case.plain(i), mode) for i in range(self.count)]
        self.records: list[Record] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.vec.close()
        for loop in self.loops:
            loop.close()

    def reset(self, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        """Both, in the environments of `mask`; all by default."""
        given = options if mask is None else {**(options or {}), "reset_mask": self.face.mask(mask)}
        result = self.vec.reset(seed=seed, options=given)
        for env in range(self.count):
            if mask is not None and not mask[env]:
                kept = self.records[env]
                self.records[env] = Record(kept.obs, {}, kept.live)
                continue
            one = seed[env] if isinstance(seed, list) else None if seed is None else seed + env
            record = self.loops[env].reset(seed=one, options=options)
            self.records[env : env + 1] = [record]
            for agent in record.live:
                self.face.action_space(env, agent).seed(env)
        self.face.compare_reset(self.records, result, mask)
        return result

    def actions(self, envs: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """A legal action for everybody who is live, one dict for each environment."""
        out = []
        for env in range(self.count) if envs is None else envs:
            record = self.records[env]
            out.append({
                agent: self.face.choose(env, agent, record.obs[agent], record.infos.get(agent))
                for agent in record.live
            })  # fmt: skip
        return out

    def step(self, actions: list[dict[str, Any]] | None = None) -> Any:
        actions = self.actions() if actions is None else actions
        result = self.vec.step(self.face.give(actions))
        self.advance(range(self.count), actions)
        self.face.compare_step(self.records, result)
        return result

    def advance(self, envs: Any, actions: list[dict[str, Any]]) -> None:
        for env, one in zip(envs, actions, strict=True):
            self.records[env] = self.loops[env].step(one)

    def revive(self) -> None:
        """Without automatic resets, those of the caller."""
        over = np.array([record.over for record in self.records])
        if self.mode == "disabled" and over.any():
            self.reset(mask=over)


# ---- the promises ---------------------------------------------------------------------------


def spaces_are_batched_and_stay_the_same_objects(case: Case) -> None:
    vec = case.vector()
    n = vec.num_envs
    if case.layout == "flat":
        assert isinstance(vec, gymnasium.vector.VectorEnv)
        assert vec.observation_space == batch_space(vec.single_observation_space, n)
        assert vec.action_space == batch_space(vec.single_action_space, n)
        for name in ("observation_space", "action_space"):
            assert getattr(vec, name) is getattr(vec, name)
            assert getattr(vec, f"single_{name}") is getattr(vec, f"single_{name}")
        assert vec.num_worlds * vec.agents_per_world == n
    else:
        assert not isinstance(vec, gymnasium.vector.VectorEnv)
        agents = list(vec.possible_agents)
        for what in ("observation", "action"):
            single = getattr(vec, f"{what}_spaces")
            batched = getattr(vec, f"batched_{what}_spaces")
            assert list(single) == list(batched) == agents
            for agent in agents:
                assert getattr(vec, f"{what}_space")(agent) is single[agent]
                assert single[agent] is single[agent]
                assert batched[agent] is batched[agent]
                assert batched[agent] == batch_space(single[agent], n)
                assert all(vec.env_spaces[i][agent] for i in range(n))
        assert sorted(itertools.chain(*vec.groups.values())) == sorted(agents)
        for group, members in vec.groups.items():
            for agent in members:
                seen, chosen = vec.group_spaces[group]
                assert (seen, chosen) == (vec.observation_space(agent), vec.action_space(agent))
    vec.close()


def it_says_what_it_is(case: Case) -> None:
    for mode, member in MODES.items():
        vec = case.vector(mode)
        assert vec.metadata["autoreset_mode"] is member
        other = case.vector(member.value)
        assert other.metadata["autoreset_mode"] is member
        other.close()
        text = repr(vec)
        assert case.layout in text
        assert mode in text
        assert vec.pool.explain()
        vec.close()


def it_shows_what_a_plain_loop_shows(case: Case) -> None:
    for mode in MODES:
        with case.run(mode) as run:
            run.reset(seed=11)
            for t in range(case.steps):
                run.step()
                run.revive()
                if t == case.steps // 2:
                    run.reset(mask=np.arange(run.count) % 2 == 0)


def seeds_are_given_in_order_and_none_continues(case: Case) -> None:
    with case.run() as run:
        for seed in (0, 7, list(range(5, 5 + run.count))[::-1], None, None):
            run.reset(seed=seed)
            for _ in range(3):
                run.step()
        first, _ = run.reset(seed=0)
        first = copy.deepcopy(first)
        run.step()
        again, _ = run.reset(seed=[0 + env for env in range(run.count)])
        same(again, first)
        for wrong in ([1] * (run.count + 1), -1, 1.5, "1", [-1] * run.count):
            with pytest.raises(ConfigError):
                run.vec.reset(seed=wrong)
        run.reset(seed=3)
        run.step()


def what_came_back_is_the_callers(case: Case) -> None:
    with case.run() as run:
        run.reset(seed=2)
        kept = []
        for _ in range(8):
            result = run.step()
            kept.append((result, copy.deepcopy(result)))
            assert all(a.flags.writeable for a in arrays_of(result[:4]))
        for result, was in kept:
            same(result, was)
        for result, _ in kept:  # writing there changes nothing elsewhere
            for array in arrays_of(result):
                if array.dtype != object:
                    array[...] = 1
        for _ in range(4):
            run.step()


def without_a_copy_arrays_are_read_only(case: Case) -> None:
    with case.run(copy=False) as run:
        run.reset(seed=2)
        for _ in range(case.steps // 2):
            result = run.step()
            assert not any(a.flags.writeable for a in arrays_of(result[:4]))


def arguments_are_never_changed(case: Case) -> None:
    with case.run("disabled") as run:
        seeds = [4] * run.count
        options = {"reset_mask": run.face.mask(np.ones(run.count, np.bool_)), "level": [1, 2]}
        run.reset(seed=1)
        was = copy.deepcopy(options)
        run.vec.reset(seed=seeds, options=options)
        same(options, was)
        assert seeds == [4] * run.count
        run.reset(seed=1)
        given = run.face.give(run.actions())
        was = copy.deepcopy(given)
        run.vec.step(given)
        same(given, was)
        run.reset(seed=1)
        for array in arrays_of(given := run.face.give(actions := run.actions())):
            array.flags.writeable = False  # as tensors and jax's arrays may be
        run.vec.step(given)
        run.advance(range(run.count), actions)


def infos_share_nothing(case: Case) -> None:
    with case.run("same_step") as run:
        results = [run.reset(seed=0), *(run.step() for _ in range(case.steps // 2))]
        seen: dict[int, Any] = {}
        for thing in itertools.chain(*(_mutable(result[-1]) for result in results)):
            assert id(thing) not in seen, f"two infos share {thing!r}"
            seen[id(thing)] = thing  # kept, so that the id isn't given again


def illegal_calls_are_refused_and_nothing_is_lost(case: Case) -> None:
    run = case.run()
    with run:
        vec, face = run.vec, run.face
        with pytest.raises(StateError):
            vec.step(vec.action_space.sample() if case.layout == "flat" else {})
        good = run.reset(seed=0)
        assert len(good) == 2
        everyone = np.ones(run.count, np.bool_)
        for options in (
            "all", {"reset_mask": face.mask(everyone)[:-1]}, {"reset_mask": face.mask(~everyone)},
            {"reset_mask": face.mask(everyone).astype(int)},
        ):  # fmt: skip
            with pytest.raises(ConfigError):
                vec.reset(options=options)
        for wrong, error in face.wrong(run.actions()):
            with pytest.raises((ActionError, UnknownAgentError)) as caught:
                vec.step(wrong)
            assert caught.type is error, (caught.value, wrong)
        run.step()  # and it goes on as if nothing had been said
        with pytest.raises(ConfigError):
            vec.call("close", envs=[run.count])
        with pytest.raises(ConfigError):
            vec.set_attr("mark", [1] * (run.count + 1))
        run.step()
    for call in (vec.reset, lambda: vec.step(None), lambda: vec.call("close")):
        with pytest.raises(ClosedError):
            call()
    vec.close()
    for options in ({"batch_size": 0}, {"batch_size": run.count + 1}, {"colour": 1}):
        with pytest.raises((ConfigError, TypeError)):
            case.vector(**options)
    with pytest.raises(ConfigError):
        case.vector("sometimes")


def an_ended_environment_must_be_reset(case: Case) -> None:
    with case.run("disabled") as run:
        run.reset(seed=5)
        for _ in range(10_000):
            run.step()
            if any(record.over for record in run.records):
                break
        ended = next(i for i, record in enumerate(run.records) if record.over)
        with pytest.raises(StateError, match=rf"environment {ended}\b"):
            run.vec.step(run.face.give(run.actions()))
        run.revive()
        run.step()


def sampled_actions_are_legal(case: Case) -> None:
    with case.run() as run:
        run.vec.seed_spaces(3)
        run.reset(seed=0)
        for _ in range(case.steps):
            sampled = run.face.taken(run.vec.sample_actions(), run.records)
            for env, one in enumerate(sampled):
                assert set(one) == set(run.records[env].live)
                for agent, action in one.items():
                    run.face.legal(env, agent, action, run.records[env])
            run.step(sampled)


def environments_can_be_reached(case: Case) -> None:
    with case.run() as run:
        run.reset(seed=0)
        n = run.count
        run.vec.set_attr("mark", list(range(n)))
        assert run.vec.get_attr("mark") == tuple(range(n))
        run.vec.set_attr("mark", 9, envs=[0])
        assert run.vec.get_attr("mark", envs=[n - 1, 0]) == ((n - 1 if n > 1 else 9), 9)
        assert len(run.vec.call("__repr__")) == n


def some_at_a_time(case: Case) -> None:
    """Asynchronously: `batch_size` environments at a time, each as its own loop shows it.

    Needs at least three environments.
    """
    for mode, size in (("next_step", 1), ("next_step", 3), ("same_step", 2)):
        with case.run(mode, batch_size=size) as run:
            vec, face, count = run.vec, run.face, run.count
            gym = case.layout == "flat" and size == count
            assert isinstance(vec, gymnasium.vector.VectorEnv) is gym
            vec.async_reset(seed=3)
            run.records = [loop.reset(seed=3 + i) for i, loop in enumerate(run.loops)]
            pending: dict[int, Any] = dict.fromkeys(range(count))  # env -> its actions; None: reset
            served = set()
            for _ in range(case.steps * count // size):
                *result, infos = vec.recv()
                ids = infos.pop("env_id") if case.layout != "list" else vec.env_ids
                envs = ids.tolist()
                assert envs == sorted(set(envs))
                assert len(envs) == size
                assert np.array_equal(vec.env_ids, ids)
                served |= set(envs)
                for env in envs:
                    actions = pending.pop(env)
                    if actions is not None:
                        run.advance([env], [actions])
                face.compare_step(run.records, (*result, infos), envs)
                actions = run.actions(envs)
                vec.send(face.give(actions), ids)
                pending.update(zip(envs, actions, strict=True))
                with pytest.raises(StateError, match=rf"environment {envs[0]}\b"):
                    vec.send(face.give(actions), ids)
                with pytest.raises(StateError):
                    vec.step(face.give(actions))
            assert served == set(range(count))  # nobody starves
            run.reset(seed=0)  # waits for what is on its way, and forgets it
            with pytest.raises(StateError):
                vec.recv()


PROMISES = [
    spaces_are_batched_and_stay_the_same_objects,
    it_says_what_it_is,
    it_shows_what_a_plain_loop_shows,
    seeds_are_given_in_order_and_none_continues,
    what_came_back_is_the_callers,
    without_a_copy_arrays_are_read_only,
    arguments_are_never_changed,
    infos_share_nothing,
    illegal_calls_are_refused_and_nothing_is_lost,
    an_ended_environment_must_be_reset,
    sampled_actions_are_legal,
    environments_can_be_reached,
    some_at_a_time,
]


def check(
    make: Callable[..., Any],
    plain: Callable[[int], Any],
    kind: str = "parallel",
    layouts: Sequence[str] = ("dict", "stacked", "list", "flat"),
    steps: int = 24,
    promises: Sequence[Callable[[Case], None]] = tuple(PROMISES),
) -> None:
    """Hold a vector to every promise, in every layout.

    Args:
        make: makes the vector; takes layout, autoreset, copy and batch_size.
        plain: makes environment number i of it alone.
        kind: "parallel", "gymnasium" or "aec".
        layouts: those that it has.
        steps: how long trajectories are; several episodes of the environment.
        promises: which.
    """
    for layout, promise in itertools.product(layouts, promises):
        try:
            promise(Case(make, plain, kind, layout, steps))
        except Exception as error:
            raise AssertionError(f"{layout}: {promise.__name__}: {error!r}") from error


def _mutable(value: Any) -> Any:
    """Every dict, list and array in infos, however deep."""
    if isinstance(value, (dict, list, np.ndarray)):
        yield value
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, np.ndarray):
        value = list(value.reshape(-1)) if value.dtype == object else ()
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _mutable(part)
