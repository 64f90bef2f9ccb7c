"""What went wrong for others with agents: who dies, pauses, returns, appears; order; turns.

Every test runs with the caller stepping all environments and with workers stepping them.
"""

import gc
import time
import warnings

import numpy as np
import pytest

import seer
from seer.errors import ActionError, UnknownAgentError

from .case_worlds import (
    AllKey,
    Doubling,
    Leaving,
    Pausing,
    Returning,
    Shuffled,
    Silent,
    Strangers,
    TakingTurns,
    Turns,
)
from .pilot import Pilot, copies
from .worlds import Ledger, Masked

pytestmark = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "processes"])


def test_living_agents_go_on_when_one_dies(workers):
    with Pilot(copies(Ledger, 2, dies={"b": 2}), workers=workers) as pilot:
        observations, _ = pilot.reset()
        assert [sorted(row) for row in observations] == [["a", "b", "c"]] * 2
        pilot.step()
        observations, rewards, ended, cut, _ = pilot.step()
        assert ended[1] == {"a": False, "b": True, "c": False}
        assert not any(cut[1].values())
        assert rewards[1]["b"] == 112.0  # its last
        assert observations[1]["b"].tolist() == [1, 1, 0, 2]
        observations, rewards, ended, _, _ = pilot.step()
        assert "b" not in observations[1] and "b" not in rewards[1] and "b" not in ended[1]
        assert rewards[1]["a"] == 103.0
        observations, _, ended, cut, _ = pilot.step()
        assert cut[1] == {"a": True, "c": True} and not any(ended[1].values())
        assert sorted(pilot.vec.final[1]["obs"]) == ["a", "c"]
        assert observations[1]["b"].tolist() == [1, 1, 1, 0]  # back, in a new episode


def test_return_of_a_dying_agent_has_its_last_reward_once(workers):
    with Pilot(copies(Ledger, names=("a", "b"), dies={"b": 3}, horizon=5), workers=workers) as p:
        p.reset()
        assert sum(p.step()[1][0].get("b", 0.0) for _ in range(5)) == 11 + 12 + 13


def test_actions_of_the_dead_are_ignored(workers):
    with Pilot(copies(Ledger, 2, dies={"b": 1}), workers=workers) as pilot:
        pilot.reset()
        pilot.step()
        everybody = [{"a": 1, "b": 4, "c": 1}] * 2
        assert pilot.vec.step(everybody)[1][0] == {"a": 2.0, "c": 22.0}


def test_action_missing_or_for_nobody_names_environment_and_agent(workers):
    with Pilot(copies(Ledger, 2), workers=workers) as pilot:
        pilot.reset()
        with pytest.raises(ActionError, match=r"environment 1.*'c'"):
            pilot.vec.step([{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1}])
        with pytest.raises(UnknownAgentError, match="'d'"):
            pilot.vec.step([{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1, "d": 1}])
        assert pilot.step()[1][1]["c"] == 121.0  # nothing has happened meanwhile


def test_agent_that_pauses_is_not_done_and_not_asked(workers):
    with Pilot(copies(Pausing, 2, horizon=6), workers=workers) as pilot:
        pilot.reset()
        pilot.step()
        for t in (2, 3):
            observations, rewards, ended, cut, _ = pilot.step()
            assert "b" not in observations[1] and "b" not in rewards[1]
            assert not ended[1].get("b") and not cut[1].get("b")
            assert rewards[1]["a"] == 100.0 + t
        assert pilot.step()[0][1]["b"].tolist() == [1, 1, 0, 4]
        assert pilot.step()[1][1]["b"] == 115.0


def test_agent_announced_but_born_later_is_observed_at_birth(workers):
    with Pilot(copies(Ledger, 2, born={"c": 2}), workers=workers) as pilot:
        observations, _ = pilot.reset()
        assert "c" not in observations[1]
        pilot.step()
        observations, rewards, *_ = pilot.step()
        assert observations[1]["c"].tolist() == [1, 2, 0, 2]
        assert rewards[1]["c"] == 0.0
        assert pilot.step()[1][1]["c"] == 123.0


def test_dead_agent_may_return_under_its_name(workers):
    with Pilot(copies(Returning, 2, dies={"b": 2}, horizon=6), workers=workers) as pilot:
        pilot.reset()
        assert pilot.step(times=2)[2][1]["b"] is True
        observations, _, ended, _, _ = pilot.step()
        assert ended[1]["b"] is False and observations[1]["b"].tolist() == [1, 1, 0, 3]
        assert pilot.step()[1][1]["b"] == 114.0


def test_names_that_nobody_announced(workers):
    with Pilot(copies(Strangers, 3, horizon=4), workers=workers) as pilot:
        pilot.reset()
        observations, rewards, *_ = pilot.step()
        assert observations[2]["late_1"].tolist() == [2, -1, 0, 1]
        assert rewards[2]["late_1"] == 0.0
        observations, rewards, *_ = pilot.step()
        assert sorted(observations[2]) == ["a", "b", "c", "late_1", "late_2"]
        assert rewards[2]["late_1"] == 2.0
        _, rewards, _, cut, _ = pilot.step(times=2)
        assert rewards[2]["late_2"] == 4.0 and cut[2]["late_2"] is True
        assert pilot.vec.final[2]["obs"]["late_2"].tolist() == [2, -1, 0, 4]
        assert "late_1" in pilot.step()[0][2]  # and so on in the next episode


def test_world_without_last_observations_still_ends(workers):
    with Pilot(copies(Silent, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        pilot.step()
        observations, rewards, _, cut, _ = pilot.step()
        assert rewards[1]["b"] == 112.0 and cut[1]["b"] is True
        assert observations[1]["a"].tolist() == [1, 0, 1, 0]
        assert pilot.vec.final[1]["obs"] == {}


def test_flag_and_reward_without_an_observation_are_kept(workers):
    with Pilot(copies(Leaving, 2, dies={"b": 2}), workers=workers) as pilot:
        pilot.reset()
        observations, rewards, ended, _, _ = pilot.step(times=2)
        assert "b" not in observations[1]
        assert ended[1]["b"] is True and rewards[1]["b"] == 112.0
        assert pilot.step()[1][1]["a"] == 103.0


def test_flags_for_all_are_no_agent_and_end_nothing(workers):
    with Pilot(copies(AllKey, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            observations, *_ = pilot.step()
        assert workers or {"__all__" in str(w.message) for w in told} == {True}
        assert observations[1]["a"].tolist() == [1, 0, 0, 1]
        observations, *_ = pilot.step()
        assert observations[1]["a"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("where", ["observation", "info"])
def test_masks_of_the_living_stay_right(workers, where):
    with Pilot(copies(Masked, 3, where=where, dies={"b": 1}), workers=workers) as pilot:
        observations, infos = pilot.reset()
        for t in range(6):
            at = t % 4  # episodes have four steps
            for tag in range(3):
                told = observations if where == "observation" else infos
                for agent in told[tag]:
                    mask = told[tag][agent]["action_mask"]
                    assert np.flatnonzero(mask).tolist() == [(at + tag) % 5]
            observations, *_, infos = pilot.step(lambda tag, at=at: (at + tag) % 5)


@pytest.mark.parametrize("where", ["observation", "info"])
def test_sampled_actions_honour_masks(workers, where):
    with Pilot(copies(Masked, 3, where=where, dies={"b": 1}), workers=workers) as pilot:
        pilot.reset()
        for _ in range(10):
            pilot.vec.step(pilot.vec.sample_actions())  # the world refuses illegal ones


def test_everybody_sees_its_own(workers):
    with Pilot(copies(Shuffled, 3), workers=workers) as pilot:
        observations, _ = pilot.reset()
        for _ in range(6):
            for tag, row in enumerate(observations):
                for place, agent in enumerate("abc"):
                    assert row[agent][:2].tolist() == [tag, place]
            observations, rewards, *_ = pilot.step()
            assert rewards[2]["b"] - rewards[2]["a"] == 10.0


def test_flags_are_matched_by_name_not_by_order(workers):
    options = {"names": ("a", "b"), "dies": {"a": 2}, "leaves": {"b": 2}, "horizon": 9}
    with Pilot(copies(Shuffled, 2, **options), workers=workers) as pilot:
        pilot.reset()
        observations, _, ended, cut, _ = pilot.step(times=2)
        assert ended[1] == {"a": True, "b": False} and cut[1] == {"a": False, "b": True}
        assert observations[1]["a"][3] == 0


def test_rewards_go_to_who_earned_them_though_another_is_observed(workers):
    with Pilot(copies(TakingTurns, 2, names=("a", "b")), workers=workers) as pilot:
        pilot.reset()
        earned = {"a": 0.0, "b": 0.0}
        for _ in range(4):
            for agent, reward in pilot.step()[1][1].items():
                earned[agent] += reward
        assert earned == {"a": 2.0, "b": 2.0}


@pytest.mark.parametrize(("order", "moves"), [("ab", 2), ("abb", 6), ("aab", 7), ("b", 3)])
def test_turns_are_given_by_the_world_and_returns_are_those_of_its_loop(workers, order, moves):
    plain = Turns(order, moves)
    plain.reset()
    right = {"a": 0.0, "b": 0.0}
    for agent in plain.agent_iter():
        _, reward, ended, cut, _ = plain.last()
        right[agent] += reward
        plain.step(None if ended or cut else 0)
    options = {"order": order, "moves": moves}
    with Pilot(copies(Turns, 2, **options), workers=workers) as pilot:
        pilot.reset()
        got = {"a": 0.0, "b": 0.0}
        for k in range(moves):
            slots = pilot.vec.turn.tolist()
            assert slots == ["ab".index(order[k % len(order)])] * 2
            _, rewards, *_ = pilot.vec.step([{"ab"[s]: 0} for s in slots])
            for agent, reward in rewards[1].items():
                got[agent] += reward
        assert pilot.vec.final[1] is not None
        assert got == right


def test_cost_of_an_agent_does_not_grow_with_their_number(workers):
    each = {}
    for count in (20, 320):
        names = tuple(f"p_{k}" for k in range(count))
        with Pilot(copies(Ledger, names=names, horizon=10**9), workers=workers) as pilot:
            pilot.reset()
            pilot.step()
            gc.disable()
            best = float("inf")
            for _ in range(5):
                start = time.perf_counter()
                pilot.step(times=max(3, 640 // count))
                best = min(best, (time.perf_counter() - start) / max(3, 640 // count))
            gc.enable()
            each[count] = best / count
    assert each[320] < 4 * each[20], each


def test_wrapper_of_single_environments_refuses_a_vector(workers):
    with Pilot(copies(Ledger, 2), workers=workers) as pilot, pytest.raises(
        (AssertionError, TypeError, seer.SeerError)
    ):  # fmt: skip
        Doubling(pilot.vec)
