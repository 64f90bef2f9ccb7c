"""Turn-based environments: what the vector tells is what the plain loop reads, each once."""

import functools
import importlib
from collections import defaultdict

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

import seer
from seer.errors import ActionError, ResultError, UnknownAgentError
from seer.vector.aec import take_turn_actions
from seer.vector.contract import Actions, VecSpec, group_agents

BACKENDS = ("serial", "process")


class Turns(AECEnv):
    """A game whose course is set: who moves when, who ends at which move, who joins.

    An observation is (agent, move, random number); a move pays its agent 1 + action + move and
    everybody else -move / 2.
    """

    def __init__(
        self, names="ab", order=None, moves=6, deaths=None, born=None, late=False, reuse=False,
        first=0.0, mask=None, keeps=False, vanish=False, back=None,
    ):  # fmt: skip
        self.metadata = {"name": "turns", "render_modes": []}
        self.possible_agents = list(names)
        self.order, self.moves = order or names, moves
        self.deaths, self.born, self.back = deaths or {}, born or {}, back or {}
        self.late, self.reuse, self.first, self.mask = late, reuse, first, mask
        self.keeps, self.vanish, self.render_mode = keeps, vanish, None
        self.buffer, self.shared_info = np.zeros(3), {}
        self.rng = np.random.default_rng()
        box = Box(-np.inf, np.inf, (3,), np.float64)
        if mask == "obs":
            box = Dict({"observation": box, "action_mask": Box(0, 1, (3,), np.int8)})
        self.spaces = box, Discrete(3)

    def observation_space(self, agent):
        return self.spaces[0]

    def action_space(self, agent):
        return self.spaces[1]

    def legal(self):
        return np.arange(3) != self.k % 3

    def observe(self, agent):
        out = self.buffer if self.reuse else np.zeros(3)
        out[:] = ord(agent[0]), self.k, self.noise
        if self.mask == "obs":
            return {"observation": out, "action_mask": self.legal().astype(np.int8)}
        return out

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.k, self.at, self.noise = self.possible_agents[:], 0, 0, self.rng.random()
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, self.first)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None
        self.agent_selection = self.order[0]
        self.tell()

    def tell(self):
        for agent in self.agents:
            info = self.shared_info if self.reuse else {}
            info.update(move=self.k, mine=agent)
            if self.mask == "info":
                info["action_mask"] = self.legal().astype(np.int8)
            self.infos[agent] = info

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if self.keeps:  # the list is not maintained; the next one's turn
                self.agent_selection = self.next()
                return
            self._was_dead_step(action)
            if self.late and self.agents:
                self.agent_selection = self.next()
            return
        assert self.spaces[1].contains(action), f"{action!r} is no action"
        assert self.mask is None or self.legal()[action], f"{action!r} is illegal"
        self.k += 1
        self.noise = self.rng.random()
        self._cumulative_rewards[agent] = 0
        self.rewards = {
            a: 1.0 + float(action) + self.k if a == agent else -self.k / 2 for a in self.agents
        }
        self._accumulate_rewards()
        for one in self.deaths.get(self.k, ""):
            self.terminations[one] = True
        if self.k >= self.moves:
            self.truncations = {a: not self.terminations[a] for a in self.agents}
        for one in (*self.born.get(self.k, ()), *self.back.get(self.k, ())):
            self.join(one)
        if self.vanish:  # whoever ended is gone, without a turn
            gone = [a for a in self.agents if self.terminations[a] or self.truncations[a]]
            self.agents = [a for a in self.agents if a not in gone]
            if not self.agents:
                return
        self.agent_selection = self.next()
        self.tell()
        if not (self.late or self.keeps):
            self._deads_step_first()
        return

    def join(self, agent):
        if agent not in self.agents:
            self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0.0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {}
        self.order += agent if agent not in self.order else ""

    def next(self):
        """Who comes next in the order; the dead too, where their turns come late."""
        ended = self.late or self.keeps
        for _ in range(2 * len(self.order)):
            self.at += 1
            agent = self.order[self.at % len(self.order)]
            if agent in self.agents and (
                ended or not (self.terminations[agent] or self.truncations[agent])
            ):
                return agent
        return self.agents[0]


GAMES = {
    "alternating": {},
    "twice in a row": {"order": "abb"},
    "skipped turns": {"names": "abc", "order": "abcacb", "moves": 9},
    "deaths in mid-cycle": {"names": "abcd", "moves": 11, "deaths": {2: "c", 5: "ab"}},
    "the mover dies": {"names": "abc", "deaths": {1: "a", 2: "b"}, "moves": 5},
    "all die at once": {"names": "abc", "deaths": {3: "abc"}},
    "late turns of the dead": {"names": "abcd", "moves": 9, "deaths": {2: "a", 4: "d"},
                               "late": True},
    "one buffer for all": {"names": "abc", "deaths": {2: "c"}, "reuse": True},
    "paid at the reset": {"first": 2.5, "order": "abb"},
    "mask in the observation": {"mask": "obs", "order": "abb"},
    "mask in the info": {"mask": "info", "order": "abb"},
    "a single player": {"names": "a"},
    "a single move": {"moves": 1, "names": "abc"},
}  # fmt: skip


def wrapped(**settings):
    env = Turns(**settings)
    if settings.get("mask"):
        env = wrappers.TerminateIllegalWrapper(env, illegal_reward=-99)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(env))


def choose(move, obs, info):
    """An action, by the number of the move and what is legal."""
    mask = obs.get("action_mask") if isinstance(obs, dict) else info.get("action_mask")
    legal = range(3) if mask is None else np.flatnonzero(mask)
    return int(legal[move * 7 % len(legal)])


def plain_loop(env, seed, episodes, act=None):
    """Per episode and agent what the plain loop reads: (observation, reward, flags, info)."""
    out = []
    for episode in range(episodes):
        env.reset(seed=seed if episode == 0 else None)
        told, move = defaultdict(list), 0
        for agent in env.agent_iter():
            obs, reward, term, trunc, info = env.last()
            told[agent].append((flat(obs), float(reward), term, trunc, dict(info)))
            if term or trunc:
                env.step(None)
            else:
                env.step(choose(move, obs, info) if act is None else act(episode, move))
                move += 1
        out.append(dict(told))
    return out


def flat(obs):
    parts = [obs[k] for k in sorted(obs)] if isinstance(obs, dict) else [obs]
    return tuple(np.asarray(part).tobytes() for part in parts)


def listed(vec, seed, episodes):
    """The same from a vector of layout list: per environment, episode and agent."""
    n = vec.num_envs
    out = [[] for _ in range(n)]
    obs, infos = vec.reset(seed=seed)
    told = [defaultdict(list) for _ in range(n)]
    move = [0] * n

    def begin(i):
        move[i] = 0
        told[i] = defaultdict(list)
        for agent, value in obs[i].items():
            told[i][agent].append((flat(value), 0.0, False, False, infos[i][agent]))

    for i in range(n):
        begin(i)
    while min(map(len, out)) < episodes:
        turns = vec.turn
        actions = []
        for i in range(n):
            if turns[i] < 0:
                actions.append({})
                continue
            agent = vec.agents[turns[i]]
            actions.append({agent: choose(move[i], obs[i][agent], infos[i][agent])})
            move[i] += 1
        obs, rewards, terms, truncs, infos = vec.step(actions)
        for i in range(n):
            if vec.was_reset[i]:
                assert not rewards[i] and not terms[i]
                begin(i)
                continue
            # A reward of the reset comes when its agent need not be seen again.
            assert set(obs[i]) == set(terms[i]) == set(truncs[i]) <= set(rewards[i])
            for agent in rewards[i].keys() - obs[i].keys():
                last = told[i][agent].pop()
                told[i][agent].append((last[0], last[1] + rewards[i][agent], *last[2:]))
            for agent in obs[i]:
                told[i][agent].append((
                    flat(obs[i][agent]), rewards[i][agent], terms[i][agent], truncs[i][agent],
                    infos[i][agent],
                ))  # fmt: skip
            assert vec.acted[i].sum() == 1
            if vec.episode_over[i]:
                out[i].append(dict(told[i]))
                assert vec.turn[i] == -1 and not vec.live[i].any()
            else:
                now = vec.agents[vec.turn[i]]
                assert now in obs[i] and vec.live[i].tolist() == [a == now for a in vec.agents]
    return out


def equal(got, want):
    """What was told of every agent, in its order."""
    assert got.keys() == want.keys()
    for agent, expected in want.items():
        told = got[agent]
        assert [t[0] for t in told] == [e[0] for e in expected], agent
        assert [t[2:4] for t in told] == [e[2:4] for e in expected], agent
        assert [str(t[4]) for t in told] == [str(e[4]) for e in expected], agent
        rewards, wanted = [t[1] for t in told], [e[1] for e in expected]
        assert rewards == wanted, agent


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("game", GAMES)
def test_every_agent_is_told_what_the_plain_loop_reads(game, backend):
    settings = GAMES[game]
    make = functools.partial(wrapped, **settings)
    with seer.make_vec(make, num_envs=3, layout="list", backend=backend) as vec:
        told = listed(vec, 5, 3)
    for i, episodes in enumerate(told):
        want = plain_loop(make(), 5 + i, 3)
        for got, expected in zip(episodes[:3], want, strict=True):
            equal(got, expected)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("game", ["twice in a row", "deaths in mid-cycle", "paid at the reset"])
def test_dict_layout_rewards_sum_to_the_plain_loop_and_flags_come_once(game, mode):
    make = functools.partial(wrapped, **GAMES[game])
    want = plain_loop(make(), 3, 2)
    with seer.make_vec(make, num_envs=1, autoreset=mode) as vec:
        assert vec.layout == "dict"
        obs, _ = vec.reset(seed=3)
        for expected in want:
            total, flags, move = defaultdict(float), defaultdict(list), 0
            over = False
            while not over:
                agent = vec.agents[vec.turn[0]]
                action = choose(move, obs[agent][0], {})
                obs, rewards, terms, truncs, infos = vec.step({agent: [action]})
                move += 1
                for a in vec.agents:
                    total[a] += rewards[a][0]
                    if terms[a][0] or truncs[a][0]:
                        flags[a].append((bool(terms[a][0]), bool(truncs[a][0])))
                        shown = infos["final_obs"][a][0] if mode == "same_step" and (
                            vec.episode_over[0]) else obs[a][0]  # fmt: skip
                        assert flat(shown) == expected[a][-1][0]
                over = bool(vec.episode_over[0])
            for a in vec.agents:
                assert total[a] == sum(e[1] for e in expected[a])
                assert flags[a] == [expected[a][-1][2:4]]
            if mode == "disabled":
                assert vec.turn[0] == -1
                obs, _ = vec.reset()
            elif mode == "next_step":
                obs, rewards, *_ = vec.step({})
                assert vec.was_reset[0] and all(r[0] == 0 for r in rewards.values())
            assert vec.turn[0] == 0


def test_absent_agents_are_filled_and_not_live():
    make = functools.partial(wrapped, **GAMES["mask in the observation"])
    with seer.make_vec(make, num_envs=2) as vec:
        obs, _ = vec.reset(seed=0)
        assert vec.turn.tolist() == [0, 0] and vec.turn.dtype == np.int64
        assert obs["b"]["action_mask"].all() and not obs["b"]["observation"].any()
        assert obs["a"]["action_mask"].tolist() == [[0, 1, 1]] * 2
        obs, rewards, *_ = vec.step({"a": np.array([1, 2])})
        assert vec.turn.tolist() == [1, 1]
        assert vec.acted.tolist() == [[True, False]] * 2
        assert rewards["a"].tolist() == [0, 0] and rewards["b"].tolist() == [-0.5, -0.5]


class Sides(Turns):
    """Players with spaces of their own: two groups."""

    def observation_space(self, agent):
        return Box(-np.inf, np.inf, (3 if agent == "a" else 2,), np.float64)

    def observe(self, agent):
        return super().observe(agent)[: 3 if agent == "a" else 2]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("game", [*GAMES, "two groups"])
def test_rows_written_at_once_equal_those_written_one_by_one(game, mode):
    make = functools.partial(wrapped, **GAMES.get(game, {}))
    if game == "two groups":
        make = functools.partial(Sides, names="abc", deaths={3: "c"})
    vecs = [seer.make_vec(make, num_envs=3, backend="serial", autoreset=mode) for _ in range(2)]
    slow = vecs[1]
    slow._backend._host._turns = None
    for vec in vecs:
        vec.reset(seed=4)
    for step in range(40):
        frames = []
        for vec in vecs:
            vec.seed_spaces(step)
            vec.step(vec.sample_actions())
            frame = vec._frame
            frames.append({
                name: getattr(frame, name).tolist()
                for name in ("flags", "lives", "seen", "over", "was_reset", "turn", "reward")
            } | {"obs": [[leaf.tolist() for leaf in leaves] for leaves in frame.obs]} | {
                name: str(getattr(frame.side, name)) for name in ("infos", "final_infos", "slots")
            })  # fmt: skip
        assert frames[0] == frames[1], step
    for vec in vecs:
        vec.close()


def test_copies_advance_independently():
    short, long = functools.partial(Turns, moves=2), functools.partial(Turns, moves=5)
    with seer.make_vec([short, long], layout="list") as vec:
        vec.reset(seed=0)
        turns, over = [], []
        for _ in range(6):
            vec.step(vec.sample_actions())
            turns.append(vec.turn.tolist())
            over.append(vec.episode_over.tolist())
    assert turns == [[1, 1], [-1, 0], [0, 1], [1, 0], [-1, -1], [0, 0]]
    assert [o[0] for o in over] == [False, True, False, False, True, False]
    assert [o[1] for o in over] == [False, False, False, False, True, False]


@pytest.mark.parametrize("layout", ["dict", "stacked", "list"])
def test_one_action_for_each_environment(layout):
    with seer.make_vec(functools.partial(Turns, order="abb"), num_envs=2, layout=layout) as vec:
        vec.reset(seed=0)
        vec.step(np.array([2, 0]))
        first = vec._frame.reward.copy()
        vec.step([1, np.int64(1)])  # b
        rewards = vec._frame.reward
        assert vec.turn.tolist() == [1, 1]
        assert first.tolist() == [[0, -0.5], [0, -0.5]]
        assert rewards.tolist() == [[0, 4.0], [0, 4.0]]
        for wrong, words in (
            ([0], "expected 2 actions, one for each environment's current agent, got 1"),
            ([0.5, 1], r"environment 0, agent 'b', whose turn it is: .* dtype int64.* float64"),
            ([1, [1, 2]], r"environment 1, agent 'b', .* shape \(\), got \(2,\)"),
            ([1, None], "environment 1, agent 'b', whose turn it is: its action is None"),
            (3, "expected 2 actions"),
        ):
            with pytest.raises(ActionError, match=words):
                vec.step(wrong)
        vec.step([0, 0])


def test_actions_by_name_must_name_the_current_agent():
    with seer.make_vec(Turns, num_envs=2, layout="list") as vec:
        vec.reset(seed=0)
        with pytest.raises(ActionError, match="environment 1, agent 'a'"):
            vec.step([{"a": 0}, {"b": 0}])
        with pytest.raises(UnknownAgentError, match="'z'"):
            vec.step([{"a": 0}, {"a": 0, "z": 1}])
        vec.step([{"a": 0}, {"a": 0, "b": "not looked at"}])


def test_turn_actions_go_to_the_agent_and_leaf_they_are_for():
    space = Dict({"x": Discrete(5), "y": Box(-1, 1, (2,), np.float32)})
    spaces = {"a": (Discrete(2), space), "b": (Discrete(2), space), "c": (Discrete(2), Discrete(9))}
    agents = ("a", "b", "c")
    spec = VecSpec(4, agents, group_agents(agents, spaces, "spaces"), "aec")
    into = Actions(spec)
    value = {"x": 3, "y": np.array([0.5, -0.5], np.float32)}
    take_turn_actions(spec, np.array([2, -1, 0, 1]), [7, None, value, value], into)
    (x, y), (c,) = into.leaves
    assert c[:, 0].tolist() == [7, 0, 0, 0]
    assert x.tolist() == [[0, 0], [0, 0], [3, 0], [0, 3]]
    assert y[2, 0].tolist() == y[3, 1].tolist() == [0.5, -0.5] and not y[0].any()
    take_turn_actions(spec, np.array([2, -1, 0, 1]), [8], into, np.array([0]))
    assert c[:, 0].tolist() == [8, 0, 0, 0]
    with pytest.raises(ActionError, match="environment 3, agent 'b': expected an action of Dict"):
        take_turn_actions(spec, np.array([2, -1, 0, 1]), [7, 0, value, 1], into)

    alike = VecSpec(2, ("a", "b"), group_agents(("a", "b"), spaces, "all"), "aec")
    into = Actions(alike)
    batch = {"x": np.array([1, 2]), "y": np.ones((2, 2), np.float32)}
    take_turn_actions(alike, np.array([1, 0]), batch, into)
    assert into.leaves[0][0].tolist() == [[0, 1], [2, 0]]
    take_turn_actions(alike, np.array([-1, 0]), {"x": [4, 4], "y": batch["y"]}, into)
    assert into.leaves[0][0].tolist() == [[0, 1], [4, 0]]


def test_an_agent_that_joins_takes_a_reserved_slot_or_travels_beside():
    make = functools.partial(wrapped, born={2: "z"}, moves=7)
    (want,) = plain_loop(make(), 0, 1)
    assert len(want["z"]) > 1
    with seer.make_vec(make, num_envs=1, max_agents=1) as vec:
        vec.reset(seed=0)
        total, turns, move = np.zeros(3), [], 0
        while not vec.episode_over[0]:
            _, rewards, *_ = vec.step([choose(move, None, {})])
            total += [rewards[a][0] for a in vec.agents]
            turns.append(int(vec.turn[0]))
            move += 1
            assert vec.slots[0] == ({"z": 2} if move >= 2 else {})
    assert turns == [1, 2, 0, 1, 2, 0, -1]
    assert total.tolist() == [sum(e[1] for e in want[a]) for a in "abz"]
    with seer.make_vec(make, num_envs=1, layout="list") as vec:
        obs, _ = vec.reset(seed=0)
        total, move, now = defaultdict(float), 0, "a"
        while not vec.episode_over[0]:
            obs, rewards, terms, truncs, _ = vec.step([{now: choose(move, None, {})}])
            move += 1
            for a, r in rewards[0].items():
                total[a] += r
            now = next((a for a in obs[0] if not (terms[0][a] or truncs[0][a])), None)
    assert dict(total) == {a: sum(e[1] for e in told) for a, told in want.items()}
    with seer.make_vec(make, num_envs=1, probe=False) as vec:
        vec.reset(seed=0)
        vec.step([0])
        with pytest.raises(UnknownAgentError, match=r"'z'.*max_agents"):
            vec.step([0])


def test_an_agent_that_comes_back_begins_a_new_life():
    make = functools.partial(Turns, names="abc", deaths={2: "c"}, back={5: "c"}, moves=9)
    with seer.make_vec(make, num_envs=1, layout="list") as vec:
        (told,) = listed(vec, 1, 2)
    for got, want in zip(told, plain_loop(make(), 1, 2), strict=False):
        equal(got, want)
    ends = [t[2] or t[3] for t in told[0]["c"]]
    assert ends.count(True) == 2 and ends[-1]


def test_agents_that_vanish_are_flagged_without_rewards_of_their_own():
    make = functools.partial(Turns, names="abc", deaths={2: "c"}, moves=5, vanish=True)
    with seer.make_vec(make, num_envs=1, layout="list") as vec:
        vec.reset(seed=1)
        flags = {}
        while not vec.episode_over[0]:
            obs, rewards, terms, truncs, _ = vec.step(vec.sample_actions())
            for a in terms[0]:
                if terms[0][a] or truncs[0][a]:
                    assert a not in flags and a not in obs[0] and a not in rewards[0]
                    flags[a] = (terms[0][a], truncs[0][a])
    assert flags == {"a": (False, True), "b": (False, True), "c": (True, False)}


def test_an_environment_that_does_not_maintain_its_list_ends_when_all_have():
    make = functools.partial(Turns, names="abc", deaths={2: "c"}, moves=7, keeps=True)
    with seer.make_vec(make, num_envs=2, layout="list") as vec:
        vec.reset(seed=1)
        flagged = []
        for move in range(1, 8):
            _, _, terms, truncs, _ = vec.step(vec.sample_actions())
            flagged += [a for a in terms[0] if terms[0][a] or truncs[0][a]]
            assert vec.episode_over.tolist() == [move == 7] * 2
        assert sorted(flagged) == ["a", "b", "c"]


class Stuck(Turns):
    """Never gets past an agent that has ended."""

    def step(self, action):
        if action is not None:
            super().step(action)


class Lost(Turns):
    """Selects who isn't there."""

    def step(self, action):
        super().step(action)
        self.agent_selection = "nobody"


class Empty(Turns):
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.agents = []


def play(vec):
    vec.reset(seed=0)
    for _ in range(4):
        vec.step(vec.sample_actions())


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (functools.partial(Stuck, names="abc", deaths={1: "b"}),
         r"have ended again and again \(now 'b'\); step\(None\) must remove"),
        (Lost, r"agent_selection is 'nobody', which is not among env.agents \['a', 'b'\]"),
        (Empty, r"env.agents is empty after reset"),
    ],
)  # fmt: skip
def test_what_no_loop_could_play_is_told_in_a_sentence(game, words):
    vec = seer.make_vec([Turns, game], layout="list", probe=False, backend="serial")
    with vec, pytest.raises(ResultError, match="environment 1: .*" + words):
        play(vec)


class Words(Turns):
    """Says and hears words, which no array holds."""

    def __init__(self):
        super().__init__()
        self.spaces = Text(20), Text(5)

    def observe(self, agent):
        return f"{agent} {self.k}"

    def step(self, action):
        self.spaces = self.spaces[0], Discrete(3)
        super().step(None if action is None else len(action) % 3)
        self.spaces = self.spaces[0], Text(5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_words_are_said_in_turn(backend):
    with seer.make_vec(Words, num_envs=2, backend=backend) as vec:
        obs, _ = vec.reset(seed=0)
        assert obs == {"a": ("a 0", "a 0"), "b": (None, None)}
        obs, rewards, *_ = vec.step(["no", "yes"])
        assert obs == {"a": (None, None), "b": ("b 1", "b 1")}
        obs, rewards, *_ = vec.step([{"b": "x"}, {"b": "yes"}])
        assert obs == {"a": ("a 2", "a 2"), "b": (None, None)}
        assert rewards["a"].tolist() == [1 + 2 + 1 - 1, 1 + 0 + 1 - 1]


def test_a_parallelizable_game_stays_turn_based():
    class Both(Turns):
        def __init__(self):
            super().__init__()
            self.metadata["is_parallelizable"] = True

    with seer.make_vec(Both, num_envs=2) as vec:
        vec.reset(seed=0)
        assert vec.turn.tolist() == [0, 0]
        assert vec.live.tolist() == [[True, False]] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_asynchronous_turns(backend):
    make = functools.partial(wrapped, **GAMES["twice in a row"])
    want = [plain_loop(make(), 9 + i, 1)[0] for i in range(4)]
    with seer.make_vec(make, num_envs=4, backend=backend, batch_size=2, layout="list") as vec:
        vec.async_reset(seed=9)
        move, done = [0] * 4, [False] * 4
        total = [defaultdict(float) for _ in range(4)]
        while not all(done):
            _, rewards, *_ = vec.recv()
            for row, env in enumerate(vec.env_ids.tolist()):
                if not done[env]:
                    for agent, reward in rewards[row].items():
                        total[env][agent] += reward
                    done[env] = bool(vec.episode_over[row])
            actions = []
            for env in vec.env_ids.tolist():
                actions.append(choose(move[env], None, {}))
                move[env] += 1
            vec.send(actions, vec.env_ids)
    assert total == [{a: sum(e[1] for e in told) for a, told in w.items()} for w in want]


# ---- PettingZoo's classic games, where what they need is installed ----------------------------


def classic(name, **settings):
    try:
        module = importlib.import_module(f"pettingzoo.classic.{name}")
        env = module.env(**settings)
        env.reset(seed=0)
        env.close()
    except (ImportError, ModuleNotFoundError) as error:
        pytest.skip(f"pettingzoo.classic.{name} needs more than is installed: {error}")
    return functools.partial(module.env, **settings)


CLASSIC = {
    "tictactoe_v3": {}, "connect_four_v3": {}, "leduc_holdem_v4": {}, "rps_v2": {},
    "texas_holdem_v4": {}, "go_v5": {"board_size": 5},
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CLASSIC)
def test_classic_games_with_their_masks(name, backend):
    make = classic(name, **CLASSIC[name])
    n, steps = 4, 400
    with seer.make_vec(make, num_envs=n, layout="list", backend=backend) as vec:
        obs, _ = vec.reset(seed=2)
        vec.seed_spaces(1)
        played = [[[]] for _ in range(n)]
        totals = [[defaultdict(float)] for _ in range(n)]
        for _ in range(steps):
            actions = vec.sample_actions()
            for i, (action, turn) in enumerate(zip(actions, vec.turn.tolist(), strict=True)):
                if turn >= 0:
                    ((agent, value),) = action.items()
                    assert agent == vec.agents[turn]
                    if isinstance(obs[i][agent], dict):
                        assert obs[i][agent]["action_mask"][value]
                    played[i][-1].append(value)
            obs, rewards, *_ = vec.step(actions)
            for i in range(n):
                if vec.was_reset[i]:
                    played[i].append([])
                    totals[i].append(defaultdict(float))
                for agent, reward in rewards[i].items():
                    totals[i][-1][agent] += reward
    for i in range(n):
        ended = min(len(played[i]) - 1, 8)
        assert ended > 0
        want = plain_loop(make(), 2 + i, ended, lambda e, move, i=i: played[i][e][move])
        for k, told in enumerate(want):
            assert totals[i][k] == {a: sum(x[1] for x in each) for a, each in told.items()}
