"""What went wrong for others with seeds, resets and last observations.

Every test runs with the caller stepping all environments and with workers stepping them.
"""

import copy
import functools
import random

import numpy as np
import pytest
from gymnasium.spaces import Box

from seer.errors import ConfigError

from .case_worlds import Looking, Random, Told, stepped
from .pilot import Pilot, copies
from .worlds import Ledger

pytestmark = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "processes"])


def column(observations, place, agent="a"):
    return [float(row[agent][place]) for row in observations]


# ---- seeds -------------------------------------------------------------------------------


def test_every_environment_is_its_own_factorys(workers):
    with Pilot(copies(Random, 4), workers=workers) as pilot:
        observations, _ = pilot.reset(7)
        assert column(observations, 0) == [0, 1, 2, 3]
        assert len(set(column(observations, 2))) == 4


def test_seed_plus_index_however_they_are_dealt(workers):
    with Pilot(copies(Told, 5), workers=workers) as pilot:
        assert column(pilot.reset(10)[0], 1) == [10, 11, 12, 13, 14]
        assert column(pilot.reset(0)[0], 1) == [0, 1, 2, 3, 4]
        assert column(pilot.reset([5, 9, 7, 9, 0])[0], 1) == [5, 9, 7, 9, 0]
        assert column(pilot.reset(None)[0], 1) == [-1] * 5


@pytest.mark.parametrize("seed", [[1, 2], "7", 1.5, -1, [1, -2, 3]])
def test_illegal_seed_is_an_error_and_no_reset(workers, seed):
    with Pilot(copies(Told, 3), workers=workers) as pilot:
        pilot.reset(3)
        with pytest.raises(ConfigError, match="seed"):
            pilot.reset(seed)
        assert column(pilot.step()[0], 1) == [3, 4, 5]


def test_equal_seeds_give_equal_states_and_zero_is_a_seed(workers):
    with Pilot(copies(Random, 3), workers=workers) as pilot:
        same = column(pilot.reset([7, 7, 7])[0], 2)
        assert len(set(same)) == 1
        first = column(pilot.reset(0)[0], 2)
        assert column(pilot.reset(0)[0], 2) == first
        again = column(pilot.reset(None)[0], 2)
        assert again != first


def test_copies_without_a_seed_differ(workers):
    factories = [functools.partial(Random)] * 4
    with Pilot(factories, workers=workers) as pilot:
        assert len(set(column(pilot.reset(None)[0], 2))) == 4


def test_automatic_resets_go_on_with_the_random_stream(workers):
    with Pilot(copies(Random, 2, horizon=1), workers=workers) as pilot:

        def play():
            return [column(pilot.reset(4)[0], 2)] + [column(pilot.step()[0], 2) for _ in range(4)]

        first = play()
        assert play() == first
        assert len({tuple(row) for row in first}) == 5


def test_global_generators_are_left_alone(workers):
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    right = random.random(), np.random.random()  # noqa: NPY002
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    with Pilot(copies(Random, 2), workers=workers) as pilot:
        pilot.reset(1)
        pilot.vec.step(pilot.vec.sample_actions())
    assert (random.random(), np.random.random()) == right  # noqa: NPY002


def test_sampling_can_be_repeated_and_spaces_stay_the_same_objects(workers):
    with Pilot(copies(Ledger, 2), workers=workers) as pilot:
        vec = pilot.vec
        pilot.reset()
        draws = []
        for _ in range(2):
            vec.seed_spaces(3)
            draws.append([vec.sample_actions() for _ in range(5)])
        assert draws[0] == draws[1]
        assert vec.action_space("a") is vec.action_space("a") is vec.action_spaces["a"]
        batched = vec.batched_action_spaces["a"]
        assert batched is vec.batched_action_spaces["a"]


# ---- resets and last observations --------------------------------------------------------


def test_last_observation_stands_beside_the_first_of_the_next_episode(workers):
    factories = [functools.partial(Ledger, tag=4 + k, horizon=2 + k) for k in range(2)]
    with Pilot(factories, workers=workers) as pilot:
        pilot.reset()
        observations, rewards, _, cut, _ = pilot.step(times=2)
        assert pilot.vec.final[1] is None
        assert pilot.vec.final[0]["obs"]["a"].tolist() == [4, 0, 0, 2]
        assert observations[0]["a"].tolist() == [4, 0, 1, 0]
        assert rewards[0]["a"] == 402.0 and cut[0]["a"] is True
        pilot.step()
        assert pilot.vec.final[0] is None and pilot.vec.final[1] is not None


def test_last_infos_and_first_ones_are_kept_apart(workers):
    with Pilot(copies(Ledger, 2, horizon=2, told=stepped), workers=workers) as pilot:
        pilot.reset()
        infos = pilot.step(times=2)[4]
        assert pilot.vec.final[1]["infos"]["a"] == {"t": 2, "episode": 0}
        assert infos[1]["a"] == {"t": 0, "episode": 1}


class _Reused(Ledger):
    def tell(self, agent):
        self.infos[agent].clear()
        self.infos[agent].update(t=self.t, seen=self.kept[agent])
        return self.infos[agent]


def test_world_that_reuses_its_buffers_changes_nothing_handed_out(workers):
    with Pilot(copies(_Reused, 2, horizon=3, reuse=True), workers=workers) as pilot:
        observations, infos = pilot.reset()
        kept = [(0, 0, observations[1]["a"], infos[1]["a"], None)]
        for t in range(1, 8):
            observations, *_, infos = pilot.step()
            kept.append((t // 3, t % 3, observations[1]["a"], infos[1]["a"], pilot.vec.final[1]))
        for number, (episode, t, seen, info, final) in enumerate(kept):
            assert seen.tolist() == [1, 0, episode, t]
            assert info["t"] == t and info["seen"].tolist() == [1, 0, episode, t]
            if number in (3, 6):
                assert final["obs"]["a"].tolist() == [1, 0, episode - 1, 3]
                assert final["infos"]["a"]["seen"].tolist() == [1, 0, episode - 1, 3]
            else:
                assert final is None


def test_manual_reset_leaves_no_hidden_one_behind(workers):
    with Pilot(copies(Ledger, 2, horizon=2), workers=workers) as pilot:
        pilot.reset()
        pilot.step(times=2)
        assert pilot.reset()[0][1]["a"].tolist() == [1, 0, 2, 0]
        assert pilot.vec.final == [None, None]
        assert pilot.step()[0][1]["a"].tolist() == [1, 0, 2, 1]


def test_options_reach_the_worlds_in_automatic_resets_too(workers):
    options = {"k": 5}
    with Pilot(copies(Told, 2, horizon=1), workers=workers) as pilot:
        assert column(pilot.reset(0, options=options)[0], 2) == [5, 5]
        assert column(pilot.step()[0], 2) == [5, 5]
        assert column(pilot.reset(0)[0], 2) == [-1, -1]
        assert column(pilot.step()[0], 2) == [-1, -1]
    assert options == {"k": 5}


def test_partial_reset_resets_the_chosen_and_keeps_the_callers_dict(workers):
    options = {"reset_mask": np.array([True, False, False]), "k": 2}
    with Pilot(copies(Told, 3, horizon=9), workers=workers) as pilot:
        pilot.reset(0)
        for _ in range(2):
            pilot.step()
            observations, _ = pilot.vec.reset(options=options)
            assert options["reset_mask"].tolist() == [True, False, False] and options["k"] == 2
            assert observations[0]["a"].tolist() == [0, -1, 2, 0]
        assert pilot.step()[0][2]["a"].tolist() == [2, 2, -1, 3]


def test_parts_of_a_result_have_the_agents_of_their_own_episode(workers):
    options = {"dies": {"a": 1}, "born": {"c": 2}, "horizon": 3, "told": stepped}
    with Pilot(copies(Ledger, 2, **options), workers=workers) as pilot:
        pilot.reset()
        observations, rewards, ended, cut, infos = pilot.step(times=3)
        assert sorted(observations[1]) == sorted(infos[1]) == ["a", "b"]
        assert sorted(rewards[1]) == sorted(ended[1]) == sorted(cut[1]) == ["b", "c"]
        assert sorted(pilot.vec.final[1]["obs"]) == ["b", "c"]
        assert sorted(pilot.vec.final[1]["infos"]) == ["b", "c"]


def test_truncation_is_not_termination(workers):
    options = {"names": ("a", "b"), "dies": {"a": 2}, "leaves": {"b": 2}, "horizon": 9}
    with Pilot(copies(Ledger, 2, **options), workers=workers) as pilot:
        pilot.reset()
        _, _, ended, cut, _ = pilot.step(times=2)
        assert ended[1] == {"a": True, "b": False} and cut[1] == {"a": False, "b": True}
        assert pilot.vec.final[1]["obs"]["b"].tolist() == [1, 1, 0, 2]


def test_results_stay_and_are_the_callers(workers):
    with Pilot(copies(Ledger, 2, horizon=9), workers=workers) as pilot:
        observations, _ = pilot.reset()
        kept = [observations]
        for _ in range(5):
            kept.append(pilot.step()[0])
        for t, rows in enumerate(kept):
            assert column(rows, 3) == [t, t]
            rows[0]["a"][:] = -1
        assert column(pilot.step()[0], 3) == [6, 6]


def test_actions_are_read_before_step_returns_and_not_changed(workers):
    action = np.array([0.5], np.float32)
    kind = functools.partial(Looking, does=Box(-1, 1, (1,), np.float32), names=("a",))
    with Pilot(copies(kind, 2), workers=workers) as pilot:
        pilot.reset()
        given = [{"a": action}, {"a": action}]
        shown = copy.deepcopy(given)
        pilot.vec.step(given)
        action[:] = 9
        assert [row["a"].shape for row in given] == [(1,), (1,)] and shown[0]["a"][0] == 0.5
        kept = pilot.vec.call("actions")
        assert [float(one[0]["a"][0]) for one in kept] == [0.5, 0.5]
