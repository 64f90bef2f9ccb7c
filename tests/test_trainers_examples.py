"""The examples: the single-file PPO learns with its masks, and the shared statistics are right."""

import functools
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in ("curves", "ppo_stacked", "sb3_simple_spread", "sb3_rendezvous"):
        sys.modules.pop(name, None)


class Echo(ParallelEnv):
    """Pays 1 for repeating what is seen. "dying_0" dies in step 3 of 6, "reach_0" has a Box.

    With `masked`, one action is illegal in every step, and taking it an error.
    """

    metadata = {"name": "echo", "render_modes": []}
    render_mode = None

    def __init__(self, masked=False):
        self.masked, self.rng = masked, np.random.default_rng(0)
        self.possible_agents = ["echo_0", "echo_1", "dying_0", "reach_0"]
        seen = Box(-1, 1, (4,), np.float32)
        if masked:
            seen = Dict(observation=seen, action_mask=Box(0, 1, (4,), np.int8))
        self.seen = dict.fromkeys(self.possible_agents, seen)
        self.seen["reach_0"] = Box(-1, 1, (1,), np.float32)
        self.acts = {a: Discrete(4) for a in self.possible_agents}
        self.acts["reach_0"] = Box(-1, 1, (1,), np.float32)
        self.agents = []

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.acts[agent]

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.t = list(self.possible_agents), 0
        return self.look(self.agents), {a: {} for a in self.agents}

    def look(self, agents):
        self.goal = {a: int(self.rng.integers(4)) for a in agents}
        out = {}
        for a in agents:
            if a == "reach_0":
                out[a] = np.array([self.goal[a] / 2 - 0.75], np.float32)
                continue
            seen = np.eye(4, dtype=np.float32)[self.goal[a]]
            mask = np.ones(4, np.int8)
            mask[(self.goal[a] + 1) % 4] = 0
            out[a] = {"observation": seen, "action_mask": mask} if self.masked else seen
        return out

    def step(self, actions):
        self.t += 1
        rewards = {}
        for a, action in actions.items():
            goal = self.goal[a]
            if a == "reach_0":
                rewards[a] = 1.0 - abs(float(action[0]) - (goal / 2 - 0.75))
            else:
                assert not (self.masked and action == (goal + 1) % 4), "an illegal action"
                rewards[a] = float(action == goal)
        here = list(self.agents)
        terms = {a: a == "dying_0" and self.t == 3 for a in here}
        truncs = {a: self.t == 6 and not terms[a] for a in here}
        self.agents = [a for a in here if not (terms[a] or truncs[a])]
        return self.look(here), rewards, terms, truncs, {a: {} for a in here}


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_the_single_file_learns(example, monkeypatch, tmp_path, masked):
    pytest.importorskip("torch", reason='needs pip install "seer-marl[torch]"')
    ppo = example("ppo_stacked")
    out = tmp_path / "curve.json"
    monkeypatch.setattr(sys, "argv", [
        "ppo_stacked.py", "--num-envs", "8", "--num-steps", "32", "--agent-steps", "30000",
        "--learning-rate", "3e-3", "--gamma", "0.5", "--minibatch", "256", "--epochs", "6",
        "--hidden", "32", "--entropy", "0.0", "--out", str(out),
    ])  # fmt: skip
    arguments = ppo.arguments()
    arguments.env = functools.partial(Echo, masked=masked)
    written = {**vars(arguments), "env": "echo"}
    monkeypatch.setattr(ppo, "vars", lambda _: written, raising=False)
    learned, judge = [], ppo.Agent.judge

    def spy(self, x, legal, actions):
        learned.append(len(x))
        assert (x != 0).any(1).all(), "filler is all zero"
        return judge(self, x, legal, actions)

    monkeypatch.setattr(ppo.Agent, "judge", spy)
    curve = ppo.main(arguments)
    # 6 + 6 + 3 + 6 steps at up to 1 each, a mean over 4 agents; guessing earns at most half.
    assert curve[0][1] < curve[-1][1]
    assert curve[-1][1] > 0.85 * 21 / 4
    # Living steps are 21 of 28 rows; the resets are further rows that count nothing.
    assert 30_000 <= curve[-1][0] < 30_000 + 8 * 32 * 4
    # Each living step enters the loss once an epoch, and nothing else does; a minibatch of one
    # row is left out.
    assert 0 <= 6 * curve[-1][0] - sum(learned) < 0.005 * sum(learned)
    assert json.loads(out.read_text())["curve"] == [list(point) for point in curve]


def test_results_are_normalized_and_counted(example, tmp_path):
    curves = example("curves")
    runs = [
        curves.Run(seed, [0, 10], [1.0, back], 5.0, 1.0, back)
        for seed, back in enumerate((9.0, 10.0, 8.0, 2.0, 11.0))
    ]
    results = curves.summary("an environment", runs, 1.0, 11.0, {"rate": 1})
    assert [run["score"] for run in results["runs"]] == [0.8, 0.9, 0.7, 0.1, 1.0]
    assert results["reached"] == "3 of 5 seeds"
    assert results["iqm_score"] == pytest.approx((0.7 + 0.8 + 0.9) / 3)
    assert results["interval_95"][0] <= results["iqm_score"] <= results["interval_95"][1]
    assert results["longest_run_seconds"] == 6.0
    curves.write(results, tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text())["env"] == "an environment"
    pytest.importorskip("matplotlib")
    curves.draw(results, tmp_path / "curve.png", "title")
    assert (tmp_path / "curve.png").stat().st_size > 5000


@pytest.mark.parametrize("name", ["sb3_simple_spread", "sb3_rendezvous"])
def test_published_results_say_what_they_claim(name):
    results = json.loads((EXAMPLES / "results" / f"{name}.json").read_text())
    low, high = results["random_return"], results["heuristic_return"]
    scores = [(run["mean_return"] - low) / (high - low) for run in results["runs"]]
    np.testing.assert_allclose(scores, [run["score"] for run in results["runs"]], atol=1e-3)
    assert len(scores) == 5 and sum(score >= results["target"] for score in scores) >= 4
    assert all(run["agent_steps"][-1] <= 2.005e6 for run in results["runs"])
    assert (EXAMPLES.parent / "docs" / f"{name}.png").stat().st_size > 10_000


def test_the_heuristic_of_simple_spread_drives_to_the_landmarks(example):
    for package in ("mpe2", "stable_baselines3", "torch"):
        pytest.importorskip(package)
    from mpe2 import simple_spread_v3

    spread = example("sb3_simple_spread")
    env = simple_spread_v3.parallel_env(max_cycles=60)
    seen, _ = env.reset(seed=3)
    while env.agents:
        last, _, _, _, _ = env.step(spread.heuristic(seen))
        seen = last or seen
    left = np.array([np.linalg.norm(o[4:10].reshape(3, 2), axis=1) for o in seen.values()])
    assert left.min(0).max() < 0.15, "every landmark has an agent on it"
    env.close()
