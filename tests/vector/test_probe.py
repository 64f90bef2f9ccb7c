"""The probe: what it finds out, and that it leaves no trace."""

import functools
import random
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Sequence

from seer.vector.probe import MAX_STEPS, probe

from .worlds import Ledger, Masked


class Slow(Ledger):
    def __init__(self, construction=0.0, step=0.0, log=None, **options):
        time.sleep(construction)
        super().__init__(log=log, **options)
        self.pause = step

    def step(self, actions):
        time.sleep(self.pause)
        return super().step(actions)


def test_what_it_finds_out():
    seen = probe(functools.partial(Slow, construction=0.02, step=2e-3, horizon=1000))
    assert seen.error == ""
    assert seen.steps == MAX_STEPS
    assert seen.construction >= 0.02
    assert seen.reset > 0.0
    assert 2e-3 <= seen.median < 20e-3
    assert 2e-3 <= seen.mean < 20e-3
    assert seen.spread >= 0.0
    assert not seen.ended
    assert seen.nbytes > 3 * 4 * 4
    assert seen.description.agents == ("a", "b", "c")


def test_resets_are_part_of_the_cost():
    class SlowReset(Ledger):
        def reset(self, seed=None, options=None):
            time.sleep(5e-3)
            return super().reset(seed, options)

    seen = probe(functools.partial(SlowReset, horizon=2))
    assert seen.ended
    assert seen.median < 1e-3 < seen.mean


def test_it_ends_in_time():
    start = time.perf_counter()
    seen = probe(functools.partial(Slow, step=0.05, horizon=1000))
    assert time.perf_counter() - start < 2.0
    assert 1 <= seen.steps < 10
    seen = probe(functools.partial(Slow, step=0.3))
    assert seen.steps == 1  # one is always made
    assert seen.mean >= 0.3


def test_it_closes_the_instance_once(tmp_path):
    log = tmp_path / "closed"
    probe(functools.partial(Ledger, tag=3, log=log))
    assert log.read_text() == "3\n"


@pytest.mark.parametrize("where", ["observation", "info"])
def test_it_respects_masks(where):
    seen = probe(functools.partial(Masked, where))  # it asserts that actions are legal
    assert seen.error == ""
    assert seen.steps == MAX_STEPS


def test_it_leaves_the_global_generators_alone():
    class Careless(Ledger):
        def __init__(self):
            super().__init__()
            np.random.seed(1)  # noqa: NPY002
            random.seed(1)

        def step(self, actions):
            np.random.random()  # noqa: NPY002
            random.random()
            return super().step(actions)

    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    expected = np.random.random(), random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    assert probe(Careless).steps == MAX_STEPS
    assert (np.random.random(), random.random()) == expected  # noqa: NPY002


def test_it_shows_no_warnings(recwarn):
    class Loud(Ledger):
        def step(self, actions):
            import warnings

            warnings.warn("loud", stacklevel=1)
            return super().step(actions)

    assert probe(Loud).steps == MAX_STEPS
    assert not [w for w in recwarn if "loud" in str(w.message)]


class Fails(Ledger):
    def __init__(self, where, log=None):
        super().__init__(log=log)
        self.where = where
        if where == "init":
            raise OSError("nowhere")

    def reset(self, seed=None, options=None):
        if self.where == "reset":
            raise OSError("no reset")
        return super().reset(seed, options)

    def step(self, actions):
        if self.where == "step" and self.t == 2:
            raise SystemExit(3)
        return super().step(actions)

    def close(self):
        super().close()
        if self.where == "close":
            raise OSError("stuck")


@pytest.mark.parametrize(
    ("where", "steps", "error"),
    [
        ("init", 0, "OSError: nowhere"),
        ("reset", 0, "OSError: no reset"),
        ("step", 2, "SystemExit: 3"),
        ("close", MAX_STEPS, ""),
    ],
)
def test_errors_are_contained(where, steps, error, tmp_path):
    log = tmp_path / "closed"
    seen = probe(functools.partial(Fails, where, log=log))
    assert (seen.steps, seen.error) == (steps, error)
    assert (seen.description is None) == (where == "init")
    if where != "init":
        assert log.read_text() == "0\n"


def test_ctrl_c_is_not_contained():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe(interrupted)


def test_agents_that_appear_and_spaces_that_cant_be_batched():
    class Guests(Ledger):
        def __init__(self):
            super().__init__(horizon=9)
            self.boxes["guest"], self.choices["guest"] = self.boxes["a"], self.choices["a"]
            self.place["guest"] = 3
            self.born = {"guest": 2}

    seen = probe(Guests)
    assert seen.error == "" and seen.steps == MAX_STEPS
    assert seen.description.agents == ("a", "b", "c")

    class Talk(gymnasium.Env):
        observation_space = Sequence(Box(0, 1, (2,), np.float32))
        action_space = Discrete(2)

        def reset(self, *, seed=None, options=None):
            return (), {}

        def step(self, action):
            return (), 0.0, False, False, {}

    assert probe(Talk).error == ""


def test_an_environment_that_names_nobody_before_its_reset():
    class Late(Ledger):
        def __init__(self):
            super().__init__()
            self.names, self.possible_agents = self.possible_agents, None

        def reset(self, seed=None, options=None):
            self.possible_agents = self.names
            return super().reset(seed, options)

    assert probe(Late).description.agents == ("a", "b", "c")
