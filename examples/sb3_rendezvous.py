"""A swarm that meets: one policy for 16 drones, by PPO of Stable-Baselines3.

    pip install "seer-marl[sb3]" matplotlib
    python examples/sb3_rendezvous.py            # 5 seeds; --seeds 1 for a first look

The drones start spread out, know of each other by sight and radio alone, and are to come together
without colliding. The worlds are native: all of them are stepped by one call. Training pays each
drone its own closeness (``shared=False``), whose mean over the drones is the return that the
protocol scores. Results go to examples/results/sb3_rendezvous.json, the learning curve to docs/.

Two things matter. A rollout is a whole episode of each of a few worlds: all worlds begin together,
so shorter rollouts of more worlds would show the policy one phase of the task at a time. And
observations are divided by their spread (``VecNormalize``): a neighbour at the distance of a
collision is at 0.03 of the sight, too small a number to steer by.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import curves
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import seer
from seer.evaluate import FIRST_SEED
from seer.trainers import sb3

NAME = "sb3_rendezvous"
SCENARIO = "rendezvous-16-medium"
WORLDS = 4
STEPS = 1_996_800  # rows stepped: worlds x drones x steps, the dead included; whole rollouts
SETTINGS = {
    "n_steps": 400, "batch_size": 2560, "n_epochs": 10, "gamma": 0.98, "gae_lambda": 0.95,
    "learning_rate": 1e-3, "net_arch": [64, 64], "log_std_init": -0.5,
}  # fmt: skip


def policy_of(model: Any, normalizer: Any) -> Any:
    """A trained model as a policy of arrays; it takes the mean of its actions.

    Returns:
        observations (world, agent, observation) -> actions (world, agent, 3).
    """

    def act(observations: Any) -> Any:
        rows = observations.reshape(-1, observations.shape[-1])
        actions, _ = model.predict(normalizer.normalize_obs(rows), deterministic=True)
        return actions.reshape(*observations.shape[:2], -1)

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
        policy = policy_of(self.model, self.model.get_vec_normalize_env())
        # Seeds of neither training nor the final evaluation.
        found = seer.evaluate(
            self.env, policy, self.episodes, FIRST_SEED + 10_000, baselines=(0.0, 1.0)
        )
        self.run.agent_steps.append(self.num_timesteps)
        self.run.returns.append(found.mean_return)
        self.run.evaluation_seconds += time.perf_counter() - start
        print(f"seed {self.run.seed}: {self.num_timesteps:>8} steps, {found.mean_return:.1f}, "
              f"{found.survival:.0%} alive at the end", flush=True)  # fmt: skip


def train(seed: int, steps: int = STEPS, every: int = 100_000, episodes: int = 50) -> curves.Run:
    """Train with one seed and evaluate the result by the protocol."""
    torch.set_num_threads(1)
    run = curves.Run(seed)
    env = seer.make("uav_swarm_v0", scenario=SCENARIO)
    settings = dict(SETTINGS)
    rate, net, spread = (settings.pop(k) for k in ("learning_rate", "net_arch", "log_std_init"))
    venv = sb3.make("uav_swarm_v0", WORLDS, scenario=SCENARIO, shared=False)
    scaled = VecNormalize(venv, gamma=settings["gamma"])
    model = PPO(
        "MlpPolicy", scaled, seed=seed, device="cpu",
        policy_kwargs={"net_arch": net, "log_std_init": spread},
        learning_rate=lambda left: rate * max(left, 0.02), **settings,
    )  # fmt: skip
    curve = Curve(run, env, every, episodes)
    start = time.perf_counter()
    model.learn(steps, callback=curve)
    run.seconds = time.perf_counter() - start - run.evaluation_seconds
    curve.look()
    result = seer.evaluate(env, policy_of(model, scaled), baselines=(0.0, 1.0))
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
    env = seer.make("uav_swarm_v0", scenario=SCENARIO)
    low, high = (
        seer.evaluate(env, policy, baselines=(0.0, 1.0)).mean_return
        for policy in ("random", "heuristic")
    )
    print(f"random {low:.1f}, heuristic {high:.1f}", flush=True)
    runs = []
    for seed in range(options.seeds):
        runs.append(train(seed, options.steps))
        results = curves.summary(f"uav_swarm_v0 {SCENARIO}", runs, low, high, {
            "worlds": WORLDS, "agent_steps": options.steps, "policy": "MlpPolicy, tanh",
            "VecNormalize": "observations and rewards",
            "learning_rate_schedule": "linear to 2 %", "evaluation": "mean action", **SETTINGS,
        })  # fmt: skip
        print(f"seed {seed}: score {runs[-1].score:.3f}, {runs[-1].seconds:.0f} s", flush=True)
        curves.write(results, options.out)
    curves.draw(results, options.picture, f"{SCENARIO}, shared-policy PPO of Stable-Baselines3")
    print(f"{results['reached']}, interquartile mean {results['iqm_score']:.3f}")


if __name__ == "__main__":
    main()
