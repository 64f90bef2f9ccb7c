"""Environments stepped in one process, against a plain loop over the same environments."""

import copy
import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import seer
from seer.errors import (
    ActionError,
    ClosedError,
    ConfigError,
    ResultError,
    StateError,
    UnknownAgentError,
)
from seer.vector import quick
from seer.vector.leaves import Tree, filler

from .worlds import Ledger, Masked

MODES = ("next_step", "same_step", "disabled")


def vector(factories, **options):
    return seer.make_vec(factories, backend="serial", **options)


def ledgers(count=3, **options):
    return [functools.partial(Ledger, tag=k, **options) for k in range(count)]


class Plain:
    """The reference: one environment, one loop, every value by hand."""

    def __init__(self, factory, mode):
        self.env, self.mode, self.over = factory(), mode, False

    def reset(self, seed=None):
        self.over = False
        return self.env.reset(seed=seed)

    def step(self, action):
        """What the list layout returns for this environment, and what it ended with."""
        if self.over:
            obs, infos = self.reset()
            return (obs, {}, {}, {}, infos), None
        out = copy.deepcopy(self.env.step(dict.fromkeys(self.env.agents, action)))
        self.over = not self.env.agents
        if self.over and self.mode == "same_step":
            obs, infos = self.reset()
            return (obs, *out[1:4], infos), (out[0], out[4])
        return out, None


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("options", [
    {}, {"dies": {"b": 2}}, {"dies": {"a": 1}, "leaves": {"b": 2}}, {"born": {"c": 2}},
    {"reuse": True}, {"dies": {"a": 4, "b": 4, "c": 4}}, {"horizon": 1},
    {"told": lambda env, agent: {"t": env.t, "who": agent}},
    {"told": lambda env, agent: {"t": env.t} if env.t == 2 else {}},
], ids=str)  # fmt: skip
def test_list_is_what_a_loop_gives(mode, options):
    factories = ledgers(3, **options)
    plain = [Plain(factory, mode) for factory in factories]
    with vector(factories, layout="list", groups="all", autoreset=mode) as vec:
        obs, infos = vec.reset(seed=5)
        for k, one in enumerate(plain):
            want_obs, want_infos = one.reset(5 + k)
            same(obs[k], want_obs)
            assert infos[k] == want_infos
        for t in range(14):
            live = [[a for a, on in zip(vec.agents, row, strict=True) if on] for row in vec.live]
            out = vec.step([dict.fromkeys(agents, t % 5) for agents in live])
            for k, one in enumerate(plain):
                want, last = one.step(t % 5)
                same(out[0][k], want[0])
                for got, expected in zip(out[1:4], want[1:4], strict=True):
                    assert got[k] == expected
                assert {a: i for a, i in out[4][k].items() if i} == {
                    a: i for a, i in want[4].items() if i
                }
                assert (vec.final[k] is None) == (last is None)
                if last is not None:
                    same(vec.final[k]["obs"], last[0])
                    assert vec.final[k]["infos"] == last[1]


def same(got, want):
    assert sorted(got) == sorted(want)
    for agent, value in want.items():
        np.testing.assert_array_equal(got[agent], value)
        assert got[agent].dtype == value.dtype


@pytest.mark.parametrize("layout", ["dict", "stacked"])
@pytest.mark.parametrize("mode", MODES[:2])
def test_arrays_say_what_lists_say(layout, mode):
    options = {"dies": {"b": 2}, "born": {"c": 1}, "told": lambda env, agent: {"t": env.t}}
    lists = vector(ledgers(4, **options), layout="list", autoreset=mode)
    arrays = vector(ledgers(4, **options), layout=layout, autoreset=mode)
    lists.reset(seed=0)
    arrays.reset(seed=0)

    def column(values, agent):
        if layout == "dict":
            return values[agent]
        return values["agent" if "agent" in values else agent][:, 0]

    for _ in range(13):
        acts = lists.sample_actions()
        want = lists.step(acts)
        each = {a: np.array([act.get(a, 0) for act in acts]) for a in lists.agents}
        grouped = {a: v[:, None] for a, v in each.items()}
        got = arrays.step(each if layout == "dict" else grouped)
        np.testing.assert_array_equal(arrays.live, lists.live)
        np.testing.assert_array_equal(arrays.acted, lists.acted)
        np.testing.assert_array_equal(arrays.episode_over, lists.episode_over)
        np.testing.assert_array_equal(arrays.was_reset, lists.was_reset)
        for agent in lists.agents:
            for k in range(4):
                there = agent in want[0][k]
                np.testing.assert_array_equal(
                    column(got[0], agent)[k], want[0][k][agent] if there else np.zeros(4)
                )
                assert column(got[1], agent)[k] == want[1][k].get(agent, 0.0)
                assert column(got[2], agent)[k] == want[2][k].get(agent, False)
                assert column(got[3], agent)[k] == want[3][k].get(agent, False)
                told = want[4][k].get(agent, {})
                if told:
                    assert got[4][agent]["t"][k] == told["t"]
                    assert got[4][agent]["_t"][k]


@pytest.mark.skipif(quick.run_in_c is None, reason="the loop in C was not built")
def test_the_loop_in_c_is_the_loop_in_python(monkeypatch):
    def episode():
        options = {"dies": {"b": 3}, "told": lambda env, agent: {"t": env.t} if env.t > 2 else {}}
        with vector(
            ledgers(3, **options), layout="list", groups="all", autoreset="same_step"
        ) as vec:
            told = [vec.reset(seed=1)]
            for _ in range(15):
                told.append(vec.step(vec.seed_spaces(3) or vec.sample_actions()))
            return told

    in_c = episode()
    for name in ("lists_in_c", "ready_in_c", "run_in_c"):
        monkeypatch.setattr(quick, name, None)
    assert repr(episode()) == repr(in_c)


@pytest.mark.parametrize("in_c", [True, False])
def test_rewards_of_every_kind_of_number(monkeypatch, in_c):
    if not in_c:
        monkeypatch.setattr(quick, "run_in_c", None)

    class Kinds(Ledger):
        kinds = (float, int, np.float32, np.float64, np.int8, bool, np.array)

        def step(self, actions):
            obs, _, terms, truncs, infos = super().step(actions)
            kind = self.kinds[self.tag]
            return (
                obs,
                {a: kind([1]) if kind is np.array else kind(1) for a in obs},
                terms,
                truncs,
                infos,
            )

    with vector([functools.partial(Kinds, tag=k) for k in range(7)]) as vec:
        vec.reset(seed=0)
        rewards = vec.step(vec.sample_actions())[1]
        assert all(r.dtype == np.float64 and (r == 1.0).all() for r in rewards.values())


def test_what_is_returned_stays():
    with vector(ledgers(2, reuse=True, horizon=50)) as vec:
        kept = [vec.reset(seed=0)[0]["a"]]
        for _ in range(20):
            kept.append(vec.step({a: [0, 0] for a in vec.agents})[0]["a"])
        for t, obs in enumerate(kept):
            assert (obs[:, 3] == t).all()
            obs[:] = -1  # it is the caller's
        assert (vec.step({a: [0, 0] for a in vec.agents})[0]["a"][:, 3] == 21).all()


def test_without_copies_results_are_read_only():
    with vector(ledgers(2, horizon=50), copy=False) as vec:
        first = vec.reset(seed=0)[0]["a"]
        with pytest.raises(ValueError, match="read-only"):
            first[:] = 0
        for t in range(1, 9):
            obs, rewards, *_ = vec.step({a: [0, 0] for a in vec.agents})
            assert (obs["b"][:, 3] == t).all() and rewards["b"].tolist() == [10 + t, 110 + t]


@pytest.mark.parametrize("where", ["observation", "info"])
@pytest.mark.parametrize("layout", ["dict", "stacked", "list"])
def test_samples_obey_masks(where, layout):
    worlds = [functools.partial(Masked, where=where, tag=k, dies={"b": 2}) for k in range(4)]
    with vector(worlds, layout=layout) as vec:
        vec.reset(seed=0)
        for _ in range(20):
            vec.step(vec.sample_actions())


def test_nested_spaces_with_agents_of_different_kinds():
    class Mixed(Ledger):
        def __init__(self, **options):
            super().__init__(names=("big", "small"), **options)
            self.boxes["big"] = seer_dict()
            self.choices["small"] = Box(-1, 1, (2,), np.float32)

        def look(self, agent):
            if agent == "small":
                return super().look(agent)
            return {"at": np.full((2, 3), self.t, np.uint8), "who": (self.tag, np.zeros(2))}

    def seer_dict():
        from gymnasium import spaces

        return spaces.Dict(
            at=Box(0, 255, (2, 3), np.uint8),
            who=spaces.Tuple((Discrete(9), Box(-1, 1, (2,), np.float64))),
        )

    with vector([functools.partial(Mixed, tag=k) for k in range(3)], layout="stacked") as vec:
        obs, _ = vec.reset(seed=0)
        assert set(obs) == {"big", "small"} and obs["small"].shape == (3, 1, 4)
        for t in range(1, 4):
            obs, *_ = vec.step(vec.sample_actions())
            assert obs["big"]["at"].dtype == np.uint8 and (obs["big"]["at"] == t).all()
            assert obs["big"]["who"][0][:, 0].tolist() == [0, 1, 2]


def test_environments_are_given_scalars_as_a_sampled_space_gives():
    with vector(ledgers(1)) as vec:
        vec.reset(seed=0)
        vec.step({a: [3] for a in vec.agents})
        (given,) = vec.get_attr("actions")
        assert all(type(action) is np.int64 and action == 3 for action in given[0].values())


def test_actions_that_environments_keep_are_theirs():
    class Keeps(Ledger):
        def __init__(self, **options):
            super().__init__(**options)
            self.choices = {a: Box(-9, 9, (2,), np.float32) for a in self.possible_agents}

    with vector([Keeps]) as vec:
        vec.reset(seed=0)
        action = np.ones((1, 2), np.float32)
        vec.step(dict.fromkeys(vec.agents, action))
        action[:] = 7
        vec.step(dict.fromkeys(vec.agents, action))
        (given,) = vec.get_attr("actions")
        assert (given[0]["a"] == 1).all() and (given[1]["a"] == 7).all()


def test_errors_name_environment_and_agent():
    class Wrong(Ledger):
        def look(self, agent):
            seen = super().look(agent)
            if self.tag == 1 and agent == "b" and self.t == 1:
                return self.bad(seen)
            return seen

    def bad(change, match):
        class Bad(Wrong):
            def bad(self, seen):
                return change(seen)

        with vector([functools.partial(Bad, tag=k) for k in range(3)]) as vec:
            vec.reset(seed=0)
            with pytest.raises(ResultError, match=match) as caught:
                vec.step({a: [0] * 3 for a in vec.agents})
            assert (caught.value.env, caught.value.agent) == (1, "b")
            with pytest.raises(StateError, match="only reset and close"):
                vec.step({a: [0] * 3 for a in vec.agents})
            vec.reset(seed=0)

    bad(lambda seen: seen[:3], r"environment 1, agent 'b'.*shape \(3,\).*\(4,\)")
    bad(lambda seen: seen.astype(complex), r"environment 1, agent 'b'.*complex.*float32")
    bad(lambda seen: None, "environment 1, agent 'b'")


def test_an_environments_own_exception_is_raised_with_its_number():
    class Boom(Ledger):
        def step(self, actions):
            if self.tag == 2:
                raise ZeroDivisionError("by nothing")
            return super().step(actions)

    with vector([functools.partial(Boom, tag=k) for k in range(3)]) as vec:
        vec.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match="by nothing") as caught:
            vec.step({a: [0] * 3 for a in vec.agents})
        assert caught.value.env == 2
        vec.reset(seed=0)


def test_illegal_calls():
    vec = vector(ledgers(2))
    acts = {a: [0, 0] for a in vec.agents}
    with pytest.raises(StateError, match="before reset"):
        vec.step(acts)
    vec.reset(seed=0)
    with pytest.raises(ActionError, match="'b'") as caught:
        vec.step({"a": [0, 0], "c": [0, 0]})
    assert (caught.value.world, caught.value.agent) == (0, "b")
    with pytest.raises(UnknownAgentError, match="did you mean"):
        vec.step({**acts, "aa": [0, 0]})
    with pytest.raises(ActionError, match="expected actions of length 2"):
        vec.step({**acts, "a": [0, 0, 0]})
    with pytest.raises(ActionError, match="dtype"):
        vec.step({**acts, "a": [0.5, 0.5]})
    vec.step(acts)  # nothing has moved by what was refused
    assert vec.get_attr("t") == (1, 1)
    for odd in (5, None, ["t"]):
        with pytest.raises(ConfigError, match="name of a method"):
            vec.get_attr(odd)
        with pytest.raises(ConfigError, match="name of a method"):
            vec.set_attr(odd, 1)
    vec.close()
    vec.close()
    with pytest.raises(ClosedError):
        vec.step(acts)
    with pytest.raises(ClosedError):
        vec.reset()


def test_who_is_gone_needs_no_action():
    with vector(ledgers(2, dies={"b": 1}, horizon=9)) as vec:
        vec.reset(seed=0)
        vec.step({a: [0, 0] for a in vec.agents})
        assert vec.live.tolist() == [[True, False, True]] * 2
        obs, rewards, *_ = vec.step({"a": [0, 0], "c": [0, 0]})
        assert not obs["b"].any() and not rewards["b"].any()
        vec.step({"a": [0, 0], "b": [None, "?"], "c": [0, 0]})
        with pytest.raises(ActionError, match="'c'"):
            vec.step({"a": [0, 0]})


def test_partial_reset_touches_only_the_chosen():
    with vector(ledgers(3, horizon=9), autoreset="disabled") as vec:
        vec.reset(seed=0)
        vec.step({a: [0] * 3 for a in vec.agents})
        options = {"reset_mask": np.array([False, True, False]), "x": 1}
        obs, _ = vec.reset(seed=[7, 8, 9], options=options)
        assert "reset_mask" in options
        assert obs["a"][:, 3].tolist() == [1, 0, 1]
        assert vec.get_attr("seeds") == ([0], [1, 8], [2])
        assert vec.get_attr("options")[1] == [None, {"x": 1}]


def test_disabled_refuses_to_step_what_has_ended():
    with vector(ledgers(2, horizon=1), autoreset="disabled") as vec:
        vec.reset(seed=0)
        vec.step({a: [0, 0] for a in vec.agents})
        with pytest.raises(StateError, match="environment 0 has ended"):
            vec.step({a: [0, 0] for a in vec.agents})
        vec.reset(options={"reset_mask": np.array([True, True])})
        vec.step({a: [0, 0] for a in vec.agents})


@pytest.mark.parametrize(("given", "want"), [
    (None, [None, None]), ({"k": 1}, [{"k": 1}, {"k": 1}]), ("last", [{"m": 2}, {"m": 2}]),
    (lambda env, episode: {"at": (env, episode)}, [{"at": (1, 1)}, {"at": (1, 2)}]),
], ids=["none", "dict", "last", "callable"])  # fmt: skip
def test_options_of_automatic_resets(given, want):
    with vector(ledgers(2, horizon=1), autoreset="same_step", autoreset_options=given) as vec:
        vec.reset(seed=0, options={"m": 2})
        for _ in range(2):
            vec.step({a: [0, 0] for a in vec.agents})
        assert vec.get_attr("options")[1] == [{"m": 2}, *want]


def test_asynchronous_steps_give_each_environment_its_own_trajectory():
    with vector(ledgers(4, horizon=5), batch_size=2, autoreset="same_step") as vec:
        with pytest.raises(StateError, match="send and recv"):
            vec.reset(seed=0) and vec.step({})
        vec.async_reset(seed=3)
        seen = {k: [] for k in range(4)}
        for _ in range(30):
            obs, _, _, _, infos = vec.recv()
            ids = infos["env_id"]
            assert ids.tolist() == sorted(ids.tolist()) and len(ids) == 2
            for row, env in enumerate(ids.tolist()):
                assert obs["a"][row, 0] == env
                seen[env].append(int(obs["a"][row, 3]))
            vec.send({a: np.zeros(2, int) for a in vec.agents}, ids)
        for times in seen.values():
            assert len(times) == 15  # nobody starves
            assert times == [t % 5 for t in range(15)]
        with pytest.raises(StateError, match="stepping already"):
            vec.send({a: np.zeros(1, int) for a in vec.agents}, [0])


def test_agents_that_were_not_announced():
    class Grows(Ledger):
        def __init__(self, **options):
            super().__init__(names=("a", "b"), horizon=5, **options)

        def action_space(self, agent):
            return Discrete(5)

        def step(self, actions):
            self.place.setdefault(f"new_{self.t}", 9)
            obs, rewards, terms, truncs, infos = (
                super().step({a: v for a, v in actions.items() if a in "ab"})
                if not [a for a in self.agents if a not in "ab"]
                else self.later(actions)
            )
            if self.t == 2 and self.agents:
                self.agents.append("new")
                self.place["new"] = 7
                obs["new"], rewards["new"] = super().look("new"), 0.0
                terms["new"] = truncs["new"] = False
            return obs, rewards, terms, truncs, infos

        def later(self, actions):
            assert set(actions) == set(self.agents)
            extra = [a for a in self.agents if a not in "ab"]
            self.agents = [a for a in self.agents if a in "ab"]
            out = super().step({a: v for a, v in actions.items() if a in "ab"})
            over = not self.agents
            for agent in extra:
                out[0][agent], out[1][agent] = super().look(agent), 70.0 + self.t
                out[2][agent], out[3][agent] = False, over
                if not over:
                    self.agents.append(agent)
            return out

    with vector([Grows], layout="dict") as vec:
        vec.reset(seed=0)
        vec.step({a: [0] for a in vec.agents})
        with pytest.raises(UnknownAgentError, match="max_agents"):
            vec.step({a: [0] for a in vec.agents})
    for options in ({"layout": "list"}, {"layout": "list", "max_agents": 4}):
        with vector([Grows], autoreset="same_step", **options) as vec:
            vec.reset(seed=0)
            total = 0.0
            for t in range(1, 11):
                obs, rewards, *_ = vec.step(vec.sample_actions())
                total += rewards[0].get("new", 0.0)
                assert ("new" in obs[0]) == (t % 5 in (2, 3, 4)), t
            assert total == 2 * (73 + 74 + 75)
    with vector([Grows], layout="dict", max_agents=4) as vec:
        vec.reset(seed=0)
        for _ in range(2):
            vec.step(vec.sample_actions())
        (slots,) = vec.slots
        assert set(slots) == {"new"} and vec.live[0, slots["new"]]
        obs, rewards, *_ = vec.step(vec.sample_actions())
        assert rewards[vec.agents[slots["new"]]].tolist() == [73.0]


def test_a_gymnasium_environment_in_lists():
    with vector("CartPole-v1", num_envs=2, layout="list") as vec:
        vec.reset(seed=0)
        moved = [vec.step([{"agent_0": k}, {"agent_0": 1 - k}])[0] for k in (0, 1, 1)]
    for env, actions in enumerate(((0, 1, 1), (1, 0, 0))):
        one = gymnasium.make("CartPole-v1")
        one.reset(seed=env)
        for t, action in enumerate(actions):
            np.testing.assert_array_equal(one.step(action)[0], moved[t][env]["agent_0"])


def test_dicts_that_an_environment_keeps_are_not_handed_on():
    class Hoards(Ledger):
        def __init__(self, **options):
            super().__init__(horizon=99, **options)
            self.hoard = []

        def step(self, actions):
            out = super().step(actions)
            self.hoard.append(out if self.tag else (*out[:2], dict(out[2]), *out[3:]))
            return out

    makers = [functools.partial(Hoards, tag=k) for k in range(2)]
    with vector(makers, layout="list", groups="all") as vec:
        vec.reset(seed=0)
        for _ in range(3):
            obs, rewards, terms, truncs, infos = vec.step(vec.sample_actions())
            for k in range(2):
                obs[k]["a"][:] = rewards[k]["a"] = terms[k]["a"] = truncs[k]["a"] = -9
                infos[k]["a"]["mine"] = 1
        for k, hoard in enumerate(vec.get_attr("hoard")):
            for t, (obs, rewards, terms, truncs, infos) in enumerate(hoard, 1):
                assert obs["a"].tolist() == [k, 0, 0, t] and rewards["a"] == 100 * k + t
                assert terms["a"] is False and truncs["a"] is False and infos["a"] == {}


class Visited(Ledger):
    """Of the announced a and b; the first episode has a guest, and every other one after it."""

    def __init__(self, **options):
        super().__init__(names=("a", "b", "guest"), **options)
        self.possible_agents = ["a", "b"]

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.agents = ["a", "b"] if self.episode % 2 else ["a", "guest", "b"]
        return {a: self.look(a) for a in self.agents}, {a: self.tell(a) for a in self.agents}


def some(*chosen):
    return {"reset_mask": np.array(chosen)}


@pytest.mark.parametrize("options", [
    {"layout": "list"}, {"layout": "list", "max_agents": 1}, {"layout": "dict", "max_agents": 1},
], ids=str)  # fmt: skip
def test_a_reset_of_some_leaves_the_guests_of_others(options):
    with vector([Visited, Visited], autoreset="disabled", **options) as vec:
        vec.reset(seed=0)
        vec.reset(options=some(True, False))
        if "max_agents" in options:
            assert vec.slots == [{}, {"guest": 2}]
            assert vec.live.tolist() == [[True, True, False], [True, True, True]]
        acts = [{"a": 0, "b": 1}, {"a": 2, "b": 3, "guest": 4}]
        vec.step(acts)  # a Ledger refuses other agents' actions
        assert vec.get_attr("actions") == ([acts[0]], [acts[1]])


def test_who_had_a_slot_in_the_step_that_ended_an_episode():
    with vector([Visited], layout="list", max_agents=2, autoreset="same_step") as vec:
        obs, _ = vec.reset(seed=0)
        assert set(obs[0]) == {"a", "b", "guest"}
        for _ in range(4):
            obs, rewards, _, truncs, _ = vec.step(vec.sample_actions())
        assert set(obs[0]) == {"a", "b"} and vec.slots == [{}]
        assert rewards[0]["guest"] == 24.0 and truncs[0]["guest"]
        assert set(vec.final[0]["obs"]) == {"a", "b", "guest"}


def test_samples_are_for_unannounced_agents_too():
    with vector([Visited] * 8, max_agents=1) as vec:
        vec.reset(seed=0)
        vec.seed_spaces(0)
        drawn = {k for _ in range(8) for k in vec.sample_actions()[vec.agents[2]].tolist()}
        assert drawn == set(range(5))


def test_disabled_remembers_who_has_ended_when_others_are_reset():
    with vector(ledgers(2, horizon=1), autoreset="disabled") as vec:
        vec.reset(seed=0)
        vec.step({a: [0, 0] for a in vec.agents})
        vec.reset(options=some(True, False))
        with pytest.raises(StateError, match="environment 1 has ended"):
            vec.step({a: [0, 0] for a in vec.agents})
        vec.reset(options=some(False, True))  # nothing was stepped, so this is allowed
        vec.step({a: [0, 0] for a in vec.agents})


def test_asynchronous_resets_of_some_leave_the_others_be():
    with vector(ledgers(3, horizon=9), batch_size=1, autoreset="disabled") as vec:
        vec.async_reset(seed=0)
        first = vec.recv()[4]["env_id"].tolist()
        with pytest.raises(ConfigError, match="reset_mask"):
            vec.async_reset(options={"reset_mask": [1]})
        with pytest.raises(ConfigError, match="seed"):
            vec.async_reset(seed=-1)
        with pytest.raises(StateError, match="environment 1 is stepping"):
            vec.async_reset(options=some(True, True, False))
        vec.async_reset(options=some(True, False, False))
        ids = [vec.recv()[4]["env_id"].tolist() for _ in range(3)]
        assert (first, ids) == ([0], [[1], [2], [0]])
        assert vec.get_attr("episode") == (1, 0, 0)
        with pytest.raises(StateError, match="send first"):
            vec.recv()


def test_after_a_failure_some_are_not_enough():
    class Fails(Ledger):
        def step(self, actions):
            raise ValueError("broken")

    with vector([Ledger, Fails], batch_size=1) as vec:
        vec.reset(seed=0)
        vec.send({a: [0, 0] for a in "abc"})
        vec.recv()
        with pytest.raises(ValueError, match="broken"):
            vec.recv()
        with pytest.raises(StateError, match="all environments must be reset"):
            vec.async_reset(options=some(True, False))
        vec.async_reset()
        assert vec.recv()[0]["a"][0, 3] == 0


def test_what_is_known_after_a_step_is_the_callers():
    with vector(ledgers(2), autoreset="disabled") as vec:
        vec.reset(seed=0)
        for known in (vec.live, vec.turn, vec.episode_over):
            known[:] = 0
        vec.reset(options=some(True, False))
        assert vec.live.all()
        vec.step({a: [0, 0] for a in vec.agents})


def test_options_are_not_changed_by_an_environment_that_takes_them_out():
    class Takes(Ledger):
        def reset(self, seed=None, options=None):
            return super().reset(seed, {"k": options.pop("k")})

    for given in ({"k": 1}, "last"):
        mode = {"autoreset": "same_step", "autoreset_options": given}
        with vector([Takes, Takes], **mode) as vec:
            mine = {"k": 1}
            vec.reset(options=mine)
            for _ in range(8):
                vec.step({a: [0, 0] for a in vec.agents})
            assert mine == {"k": 1}
            assert vec.get_attr("options") == ([{"k": 1}] * 3,) * 2


def test_actions_of_who_lives_nowhere_are_not_looked_at():
    for layout, nothing in (("dict", {"a": None, "b": [None, "x"]}), ("stacked", {"a": None})):
        with vector(ledgers(2, horizon=1), layout=layout, groups="each") as vec:
            vec.reset(seed=0)
            vec.step({a: np.zeros((2, 1) if layout == "stacked" else 2, int) for a in "abc"})
            assert not vec.live.any()
            vec.step(nothing)


def test_actions_beside_the_arrays_are_read_at_once():
    class Talks(Ledger):
        def action_space(self, agent):
            return gymnasium.spaces.Sequence(Discrete(5))

    with vector([Talks], batch_size=1) as vec:
        vec.reset(seed=0)
        words = [[1, 2]]
        vec.send(dict.fromkeys(vec.agents, words))
        words[0].append(3)
        vec.recv()
        assert vec.get_attr("actions")[0] == [{a: [1, 2] for a in "abc"}]


def test_spaces_that_differ_are_seeded_and_are_not_the_environments_own():
    class Boxed(Ledger):
        def __init__(self, **options):
            super().__init__(**options)
            self.choices = {a: Box(0, 1 + self.tag, (2,), np.float32) for a in "abc"}

    with vector([functools.partial(Boxed, tag=k) for k in range(2)]) as vec:
        vec.reset(seed=0)
        drawn = []
        for _ in range(2):
            vec.seed_spaces(3)
            drawn.append(np.stack(list(vec.sample_actions().values())))
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert len(np.unique(drawn[0])) == drawn[0].size
        assert vec.env_spaces[1]["a"][1] is vec.env_spaces[1]["a"][1]
        own = [space for both in vec.get_attr("choices") for space in both.values()]
        shown = [spaces["a"][1] for spaces in vec.env_spaces] + [
            pair[1] for pair in vec.group_spaces.values()
        ]
        assert not any(space is mine for space in shown for mine in own)


@pytest.mark.parametrize("space", [
    Discrete(3, start=-5), gymnasium.spaces.MultiDiscrete([3, 2], start=[-5, 4]),
], ids=str)  # fmt: skip
def test_filler_of_numbers_that_do_not_begin_at_zero_is_in_the_space(space):
    assert space.contains(filler(Tree(space).leaves[0]))


def test_ctrl_c_in_an_environments_property_arrives():
    class Slow(Ledger):
        pressed = False

        @property
        def agents(self):
            if self.pressed:
                self.pressed = False
                raise KeyboardInterrupt
            return self.there

        @agents.setter
        def agents(self, agents):
            self.there = agents

        def step(self, actions):
            out = super().step(actions)
            self.pressed = self.t == 2
            return out

    with vector([Slow, Slow]) as vec:
        vec.reset(seed=0)
        vec.step({a: [0, 0] for a in vec.agents})
        with pytest.raises(KeyboardInterrupt):
            vec.step({a: [0, 0] for a in vec.agents})


def test_a_result_that_an_environment_keeps_is_not_handed_on():
    class Keeps(Ledger):
        def step(self, actions):
            self.result = super().step(actions)
            return self.result

    with vector([Keeps], layout="list", groups="all") as vec:
        vec.reset(seed=0)
        out = vec.step([dict.fromkeys("abc", 0)])
        (result,) = vec.get_attr("result")
        for mine, its in zip(out, result, strict=True):
            assert mine[0] is not its
        assert result[0]["a"].base is None  # and not a row of the vector's arrays
