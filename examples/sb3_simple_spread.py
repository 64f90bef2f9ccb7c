"""One policy for all agents of mpe2's simple_spread, by PPO of Stable-Baselines3.

    pip install "seer-marl[sb3]" mpe2 matplotlib
    python examples/sb3_simple_spread.py            # 5 seeds; --seeds 1 for a first look

Three agents are to stand on three landmarks without touching. Every agent is a row of the vector
environment, all rows share one policy, and each row is given its own agent's reward. Results go
to examples/results/sb3_simple_spread.json, the learning curve to docs/.

Scores are normalized: 0 is the random policy, 1 the heuristic below, on 100 episodes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import curves
import numpy as np
import torch
from mpe2 import simple_spread_v3
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import seer
from seer.evaluate import FIRST_SEED, rollout
from seer.trainers import sb3

NAME = "sb3_simple_spread"
ENVIRONMENTS = 64
AGENTS = 3
STEPS = 1_996_800  # rows stepped: environments x agents x steps; whole rollouts
SETTINGS = {
    "n_steps": 25, "batch_size": 800, "n_epochs": 10, "gamma": 0.95, "gae_lambda": 0.95,
    "ent_coef": 0.01, "learning_rate": 1e-3, "net_arch": [128, 128],
}  # fmt: skip

ORDERS = np.array(list(itertools.permutations(range(AGENTS))))
DRIFT = 0.1 / 0.25  # how far a speed of 1 still carries: time step / damping
PUSH = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) * 0.5 * DRIFT  # of each action


def heuristic(observations: dict[str, Any]) -> dict[str, int]:
    """Give every agent a landmark so that the ways are shortest in sum, and drive there.

    Each agent takes the action after which, coasting, it would come to rest closest to its
    landmark. It sees what a learner sees: each observation holds all positions.
    """
    seen = np.array(list(observations.values()), np.float64)
    landmarks = seen[:, 4:10].reshape(AGENTS, AGENTS, 2)  # (agent, landmark, xy), from the agent
    distance = np.linalg.norm(landmarks, axis=-1)
    best = ORDERS[np.argmin([distance[range(AGENTS), order].sum() for order in ORDERS])]
    left = landmarks[range(AGENTS), best] - seen[:, 0:2] * DRIFT
    actions = np.linalg.norm(left[:, None] - PUSH, axis=-1).argmin(-1)
    return dict(zip(observations, actions.tolist(), strict=True))


def policy_of(model: Any) -> Any:
    """A trained model as a policy of dicts; it takes the likeliest action."""

    def act(observations: dict[str, Any]) -> dict[str, Any]:
        actions, _ = model.predict(np.stack(list(observations.values())), deterministic=True)
        return dict(zip(observations, actions, strict=True))

    return act


class Curve(BaseCallback):
    """Evaluates from time to time, and leaves the time that takes out of the training's."""

    def __init__(self, run: curves.Run, env: Any, every: int, episodes: int) -> None:
        super().__init__()
        self.run, self.env, self.every, self.episodes = run, env, every, episodes
        self.next = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.next:
            self.next = self.num_timesteps + self.every
            self.look()

    def look(self) -> None:
        """Note the mean return of the policy as it is."""
        start = time.perf_counter()
        # Seeds of neither training nor the final evaluation.
        found = rollout(self.env, policy_of(self.model), self.episodes, FIRST_SEED + 10_000)
        self.run.agent_steps.append(self.num_timesteps)
        self.run.returns.append(float(found.returns.mean()))
        self.run.evaluation_seconds += time.perf_counter() - start
        print(f"seed {self.run.seed}: {self.num_timesteps:>8} steps, {self.run.returns[-1]:.2f}",
              flush=True)  # fmt: skip


def train(seed: int, steps: int = STEPS, every: int = 100_000, episodes: int = 100) -> curves.Run:
    """Train with one seed and evaluate the result by the protocol."""
    torch.set_num_threads(1)
    run, env = curves.Run(seed), simple_spread_v3.parallel_env()
    settings = dict(SETTINGS)
    rate, net = settings.pop("learning_rate"), settings.pop("net_arch")
    venv = sb3.make(simple_spread_v3, ENVIRONMENTS)
    model = PPO(
        "MlpPolicy", venv, seed=seed, device="cpu", policy_kwargs={"net_arch": net},
        learning_rate=lambda left: rate * max(left, 0.02), **settings,
    )  # fmt: skip
    curve = Curve(run, env, every, episodes)
    start = time.perf_counter()
    model.learn(steps, callback=curve)
    run.seconds = time.perf_counter() - start - run.evaluation_seconds
    curve.look()
    result = seer.evaluate(env, policy_of(model), episodes, baselines=(0.0, 1.0))
    run.mean_return, run.dead_share = result.mean_return, venv.dead_share
    venv.close()
    return run


def main() -> None:
    """Train with several seeds, write the results and draw the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, default=curves.HERE / "results" / f"{NAME}.json")
    parser.add_argument("--picture", type=Path, default=curves.HERE.parent / "docs" / f"{NAME}.png")
    options = parser.parse_args()
    env = simple_spread_v3.parallel_env()
    low, high = (
        float(rollout(env, policy, 100, FIRST_SEED).returns.mean())
        for policy in ("random", heuristic)
    )
    print(f"random {low:.2f}, heuristic {high:.2f}", flush=True)
    runs = []
    for seed in range(options.seeds):
        runs.append(train(seed, options.steps))
        results = curves.summary("mpe2 simple_spread_v3", runs, low, high, {
            "environments": ENVIRONMENTS, "agent_steps": options.steps, "policy": "MlpPolicy, tanh",
            "learning_rate_schedule": "linear to 2 %", "evaluation": "likeliest action", **SETTINGS,
        })  # fmt: skip
        print(f"seed {seed}: score {runs[-1].score:.3f}, {runs[-1].seconds:.0f} s", flush=True)
        curves.write(results, options.out)
    curves.draw(results, options.picture, "simple_spread, shared-policy PPO of Stable-Baselines3")
    print(f"{results['reached']}, interquartile mean {results['iqm_score']:.3f}")


if __name__ == "__main__":  # worker processes import this file
    main()
