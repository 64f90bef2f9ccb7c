"""Many descriptions become one specification."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv, ParallelEnv

from seer.errors import ConfigError
from seer.vector.describe import EnvDescription, describe
from seer.vector.merge import merge

from .worlds import Ledger


def said(kind="parallel", name="Env", **spaces):
    """A description: agent=(observation space, action space)."""
    return EnvDescription(kind, tuple(spaces), spaces, name=name)


PLAIN = (Box(-1, 1, (3,), np.float32), Discrete(4))


def test_one_environment():
    spec = merge([describe(Ledger())], name="ledger")
    assert spec.agents == ("a", "b", "c")
    assert spec.num_envs == 1
    assert spec.kind == "parallel"
    assert spec.metadata["name"] == "ledger"
    assert spec.has_state
    assert spec.env_spaces is None
    assert spec.reserved == 0


def test_agents_are_the_union_in_order_of_first_mention():
    spec = merge([said(b=PLAIN, a=PLAIN), said(c=PLAIN, a=PLAIN), said(d=PLAIN)])
    assert spec.agents == ("b", "a", "c", "d")
    assert spec.slot == {"b": 0, "a": 1, "c": 2, "d": 3}
    assert spec.env_spaces is None


def test_groups_by_name_and_space():
    wide = (Box(-1, 1, (5,), np.float32), Discrete(4))
    spec = merge([said(scout_0=PLAIN, scout_1=PLAIN, tank_0=wide, tank_1=PLAIN)])
    assert {group.name: group.agents for group in spec.groups} == {
        "scout": ("scout_0", "scout_1"), "tank_0": ("tank_0",), "tank_1": ("tank_1",),
    }  # fmt: skip
    spec = merge([said(x_0=PLAIN, y_0=PLAIN)], groups={"team": ["x_0", "y_0"]})
    assert spec.groups[0].name == "team"
    assert spec.groups[0].slots.tolist() == [0, 1]


def test_bounds_may_differ_between_environments():
    low, high = Box(-1, 1, (2,), np.float32), Box(-9, 9, (2,), np.float32)
    spec = merge([said(a=(low, Discrete(2))), said(a=(high, Discrete(2)))])
    assert spec.env_spaces[0]["a"][0] == low
    assert spec.env_spaces[1]["a"][0] == high
    assert spec.groups[0].observation_space == low


@pytest.mark.parametrize(
    "other",
    [
        Box(-1, 1, (4,), np.float32),
        Box(-1, 1, (3,), np.float64),
        Dict(x=Box(-1, 1, (3,), np.float32)),
        Discrete(3),
    ],
)
def test_shape_dtype_and_structure_may_not(other):
    with pytest.raises(ConfigError) as caught:
        merge([said(a=PLAIN), said(b=PLAIN), said(a=(other, Discrete(4)))])
    message = str(caught.value)
    assert "observation spaces of agent 'a' differ in more than their bounds" in message
    assert str(PLAIN[0]) in message and "in environment 0" in message
    assert str(other) in message and "in environment 2" in message
    if not isinstance(other, Discrete):
        with pytest.raises(ConfigError, match="the action spaces of agent 'a' differ"):
            merge([said(a=PLAIN), said(a=(PLAIN[0], other))])


def test_kinds_may_not_mix():
    with pytest.raises(ConfigError, match=r"environment 1 .*is a Gymnasium Env; a vector has one"):
        merge([said(a=PLAIN), said("gymnasium", agent_0=PLAIN)])


def test_reserved_slots_join_the_only_group():
    spec = merge([said(bee_0=PLAIN, bee_1=PLAIN)], max_agents=2)
    assert spec.reserved == 2
    assert len(spec.agents) == 4
    assert spec.agents[:2] == ("bee_0", "bee_1")
    assert [group.name for group in spec.groups] == ["bee"]
    assert len(spec.groups[0]) == 4


def test_reserved_slots_are_a_group_beside_several():
    spec = merge([said(ant_0=PLAIN, bee_0=PLAIN)], max_agents=1)
    assert [group.name for group in spec.groups] == ["ant", "bee", "reserved"]
    spec = merge([said(ant_0=PLAIN, bee_0=PLAIN)], max_agents=1, groups={"x": ["ant_0", "bee_0"]})
    assert [group.name for group in spec.groups] == ["x", "reserved"]


def test_a_reserved_slot_never_has_an_agents_name():
    spec = merge([said(reserved_0=PLAIN)], max_agents=1)
    assert len(set(spec.agents)) == 2


def test_slots_are_for_multi_agent_environments():
    with pytest.raises(ConfigError, match="only agents of a multi-agent environment may appear"):
        merge([said("gymnasium", agent_0=PLAIN)], max_agents=2)


def test_nobody_announced():
    with pytest.raises(ConfigError, match=r"environment 1 \(Env\) has no possible_agents"):
        merge([said(a=PLAIN), EnvDescription("parallel", None, {}, name="Env")])


def test_state_only_where_all_have_one():
    with_state, without = said(a=PLAIN), said(a=PLAIN)
    with_state.has_state = True
    assert merge([with_state, with_state]).has_state
    assert not merge([with_state, without]).has_state


# ---- describe ------------------------------------------------------------------------


class Bare(ParallelEnv):
    """Names nobody before its reset."""

    metadata = {"lock": (lambda: None), "name": "bare"}

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents = ["p"]
        return {"p": 0}, {}

    def step(self, actions):
        return {"p": 0}, {"p": 0.0}, {"p": False}, {"p": False}, {}

    def observation_space(self, agent):
        return Discrete(2)

    action_space = observation_space


def test_nobody_is_there_before_the_reset():
    env = Bare()
    assert describe(env).agents is None
    env.reset()
    assert describe(env).agents == ("p",)


def test_a_description_can_be_pickled():
    description = pickle.loads(pickle.dumps(describe(Bare())))
    assert description.metadata == {"name": "bare"}


def test_state_that_only_raises_is_none():
    assert not describe(Bare()).has_state
    assert describe(Ledger()).has_state


def test_agents_from_a_table_of_spaces():
    class Tabled(Bare):
        observation_spaces = {"u": Discrete(2), "v": Discrete(2)}
        action_spaces = {"u": Discrete(3), "v": Discrete(3)}

    assert describe(Tabled()).agents == ("u", "v")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"possible_agents": ["a", "a"]}, "names 'a' twice"),
        ({"possible_agents": [0, 1]}, "names of agents must be strings, got 0"),
        ({"possible_agents": 3}, "possible_agents must be a list of names, got an int"),
        ({"possible_agents": ["zz"]}, "has no observation space for its agent 'zz': KeyError"),
        ({"observation_space": lambda agent: None}, "must be a gymnasium space, got None"),
        ({"action_space": None}, "neither action_space\\(agent\\) nor action_spaces"),
    ],
)
def test_agents_and_spaces_that_are_none(changes, words):
    env = Ledger()
    vars(env).update(changes)
    with pytest.raises(ConfigError, match=words):
        describe(env, "environment 5")


def test_turn_based_environments_are_known_without_a_base_class():
    class Game:
        possible_agents = ["a"]

        def observation_space(self, agent):
            return Discrete(2)

        action_space = observation_space

        def reset(self, seed=None, options=None): ...

        def step(self, action): ...

        def last(self): ...

        def agent_iter(self): ...

    assert not isinstance(Game(), AECEnv)
    assert describe(Game()).kind == "aec"


def test_a_multi_agent_gymnasium_environment_is_parallel():
    class Several(gymnasium.Env):
        possible_agents = ["a", "b"]
        observation_spaces = {"a": Discrete(2), "b": Discrete(2)}
        action_spaces = {"a": Discrete(2), "b": Discrete(2)}

    assert describe(Several()).kind == "parallel"
    assert describe(Several()).agents == ("a", "b")
