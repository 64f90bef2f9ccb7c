r"""PPO in one file, on the layout "stacked": one array and one network for each group of agents.

    pip install "seer-marl[torch]" mpe2
    python examples/ppo_stacked.py --env mpe2.simple_spread_v3:parallel_env
    python examples/ppo_stacked.py --env uav_swarm_v0 --set scenario=rendezvous-16-medium \
        --set shared=False --num-envs 16 --num-steps 64 --gamma 0.99

Everything that matters stands in `main`, from top to bottom. Three masks make it right for agents
that come, go and die:

- ``vec.acted`` says whose step this was. Only those enter the loss; dead agents and automatic
  resets cost memory, but teach nothing.
- An agent's last observation arrives in its last step (resets come in the step after), so the
  value after a truncation is that of the next row of the buffer.
- An ``action_mask`` in the observations takes illegal actions out of the distribution.

Source: Schulman et al., Proximal Policy Optimization Algorithms, 2017; generalized advantage
estimation from Schulman et al., ICLR 2016.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import time
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical, Normal

import seer
from seer.vector import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--env", default="mpe2.simple_spread_v3:parallel_env", help="an id, or module:attribute")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="for the environment")
    add("--seed", type=int, default=0)
    add("--num-envs", type=int, default=64)
    add("--num-steps", type=int, default=25, help="of each environment between two updates")
    add("--agent-steps", type=int, default=2_000_000, help="steps of living agents")
    add("--learning-rate", type=float, default=1e-3, help="falls linearly to 2 %%")
    add("--gamma", type=float, default=0.95)
    add("--gae-lambda", type=float, default=0.95)
    add("--epochs", type=int, default=10)
    add("--minibatch", type=int, default=1024)
    add("--clip", type=float, default=0.2)
    add("--entropy", type=float, default=0.01)
    add("--value", type=float, default=0.5)
    add("--max-grad-norm", type=float, default=0.5)
    add("--hidden", type=int, default=128)
    add("--out", default=None, help="write the learning curve to this file, as JSON")
    return parser.parse_args()


class Agent(nn.Module):
    """Policy and value of every agent of a group.

    Args:
        observation_space: of one agent: a Box, or a Dict with "observation" and "action_mask".
        action_space: of one agent: a Discrete or a Box.
        hidden: width of the two hidden layers.
    """

    def __init__(self, observation_space: Any, action_space: Any, hidden: int) -> None:
        super().__init__()
        if not isinstance(action_space, (spaces.Discrete, spaces.Box)):
            raise TypeError(f"expected Discrete or Box actions, got {action_space}")
        inner = observation_space
        if isinstance(inner, spaces.Dict):
            inner = inner["observation"]
        inputs = int(np.prod(inner.shape))
        self.discrete = isinstance(action_space, spaces.Discrete)
        outputs = int(action_space.n if self.discrete else np.prod(action_space.shape))
        self.actor = network(inputs, hidden, outputs, 0.01)
        self.critic = network(inputs, hidden, 1, 1.0)
        self.log_std = nn.Parameter(torch.full((outputs,), -0.5))

    def distribution(self, x: torch.Tensor, legal: torch.Tensor | None) -> Any:
        """Of the actions, given observations (rows, inputs) and masks (rows, actions) or None."""
        out = self.actor(x)
        if not self.discrete:
            return Normal(out, self.log_std.exp().expand_as(out))
        return Categorical(logits=out if legal is None else out.masked_fill(~legal, -1e9))

    def judge(self, x: torch.Tensor, legal: torch.Tensor | None, actions: torch.Tensor) -> Any:
        """Log-probability (rows,) of actions, entropy (rows,) and value (rows,)."""
        found = self.distribution(x, legal)
        log, entropy = found.log_prob(actions), found.entropy()
        if not self.discrete:
            log, entropy = log.sum(-1), entropy.sum(-1)
        return log, entropy, self.critic(x).squeeze(-1)


def network(inputs: int, hidden: int, outputs: int, gain: float) -> nn.Sequential:
    """Two hidden layers, tanh, orthogonal weights."""
    layers: list[nn.Module] = []
    for a, b, scale in (
        (inputs, hidden, 2**0.5),
        (hidden, hidden, 2**0.5),
        (hidden, outputs, gain),
    ):
        linear = nn.Linear(a, b)
        nn.init.orthogonal_(linear.weight, scale)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def tensors(observation: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A group's observations as (N, A, inputs) float32 and masks (N, A, actions) bool or None."""
    legal = None
    if isinstance(observation, dict):
        legal = torch.as_tensor(observation["action_mask"]).bool()
        observation = observation["observation"]
    x = torch.as_tensor(observation, dtype=torch.float32)
    return x.reshape(*x.shape[:2], -1), legal


def main(args: argparse.Namespace) -> list[tuple[int, float]]:
    """Train; returns the curve as (agent steps, mean return of an agent)."""
    random.seed(args.seed)
    np.random.seed(args.seed)  # noqa: NPY002
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    made = dict(item.split("=", 1) for item in args.set)
    vec = seer.make_vec(args.env, args.num_envs, layout="stacked", env_kwargs=literals(made))
    vec = stats = RecordEpisodeStatistics(vec, buffer_length=200)  # before rewards are scaled
    vec = NormalizeObservation(vec, clip=10.0, leave=["action_mask"])
    vec = NormalizeReward(vec, gamma=args.gamma)
    print(vec.unwrapped)

    groups = {name: [vec.agents.index(a) for a in agents] for name, agents in vec.groups.items()}
    single = {name: vec.agents[slots[0]] for name, slots in groups.items()}
    nets = nn.ModuleDict(
        {
            name: Agent(vec.observation_space(a), vec.action_space(a), args.hidden)
            for name, a in single.items()
        }
    )
    optimizer = torch.optim.Adam(nets.parameters(), args.learning_rate, eps=1e-5)

    # ---- storage: T + 1 rows of observations, because the last one is needed for its value
    T, N = args.num_steps, args.num_envs
    observations, _ = vec.reset(seed=args.seed)
    store: dict[str, dict[str, torch.Tensor]] = {}
    for name, slots in groups.items():
        x, legal = tensors(observations[name])
        space, A = vec.action_space(single[name]), len(slots)
        kind = torch.long if nets[name].discrete else torch.float32
        store[name] = {
            "x": torch.zeros(T + 1, *x.shape),
            "action": torch.zeros(T, N, A, *space.shape, dtype=kind),
            **{key: torch.zeros(T, N, A) for key in ("log", "reward")},
            **{key: torch.zeros(T, N, A, dtype=torch.bool) for key in ("acted", "died", "ended")},
        }
        if legal is not None:
            store[name]["legal"] = torch.ones(T + 1, *legal.shape, dtype=torch.bool)

    done, curve, begin, update = 0, [], time.perf_counter(), 0
    while done < args.agent_steps:
        left = max(1.0 - done / args.agent_steps, 0.02)
        optimizer.param_groups[0]["lr"] = left * args.learning_rate

        # ---- play
        for t in range(T + 1):
            for name, b in store.items():
                x, legal = tensors(observations[name])
                b["x"][t] = x
                if legal is not None:
                    b["legal"][t] = legal
            if t == T:
                break
            actions = {}
            with torch.no_grad():
                for name, b in store.items():
                    legal = b["legal"][t] if "legal" in b else None
                    found = nets[name].distribution(b["x"][t], legal)
                    action = found.sample()
                    log = found.log_prob(action)
                    b["action"][t], b["log"][t] = action, log if log.dim() == 2 else log.sum(-1)
                    actions[name] = legal_form(vec.action_space(single[name]), action.numpy())
            observations, rewards, terminated, truncated, _ = vec.step(actions)
            acted = torch.as_tensor(vec.acted)
            for name, b in store.items():
                b["reward"][t] = torch.as_tensor(rewards[name])
                b["acted"][t] = acted[:, groups[name]]  # the mask of the loss
                b["died"][t] = torch.as_tensor(terminated[name])
                b["ended"][t] = torch.as_tensor(terminated[name] | truncated[name])
            done += int(acted.sum())

        # ---- advantages: what an agent's step was worth, until that agent's own end
        batches = {}
        for name, b in store.items():
            net = nets[name]
            with torch.no_grad():
                value = net.critic(b["x"]).squeeze(-1)
            advantage, carried = torch.zeros_like(b["reward"]), torch.zeros_like(b["reward"][0])
            for t in reversed(range(T)):
                after = value[t + 1] * ~b["died"][t]
                delta = b["reward"][t] + args.gamma * after - value[t]
                carried = delta + args.gamma * args.gae_lambda * carried * ~b["ended"][t]
                carried = carried * b["acted"][t]  # nothing flows through absent steps
                advantage[t] = carried
            keep = b["acted"].reshape(-1)  # absent agents are left out of every batch
            flat = {
                "x": b["x"][:T], "action": b["action"], "log": b["log"], "advantage": advantage,
                "target": advantage + value[:T],
            }  # fmt: skip
            if "legal" in b:
                flat["legal"] = b["legal"][:T]
            batches[name] = {key: v.flatten(0, 2)[keep] for key, v in flat.items()}

        # ---- learn
        for _ in range(args.epochs):
            for name, batch in batches.items():
                for rows in torch.randperm(len(batch["log"])).split(args.minibatch):
                    if len(rows) < 2:
                        continue
                    m = {key: value[rows] for key, value in batch.items()}
                    log, entropy, value = nets[name].judge(m["x"], m.get("legal"), m["action"])
                    ratio = (log - m["log"]).exp()
                    gain = m["advantage"]
                    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                    clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                    policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
                    value_loss = 0.5 * (value - m["target"]).pow(2).mean()
                    loss = policy_loss + args.value * value_loss - args.entropy * entropy.mean()
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(nets.parameters(), args.max_grad_norm)
                    optimizer.step()

        # ---- tell
        update += 1
        if stats.return_queue and (update % 20 == 0 or done >= args.agent_steps):
            curve.append((done, float(np.mean(stats.return_queue)) / len(vec.agents)))
            speed = done / (time.perf_counter() - begin)
            print(f"{done:>9} steps, return {curve[-1][1]:8.2f}, {speed:.0f} steps/s", flush=True)
    vec.close()
    if args.out:
        with open(args.out, "w") as file:
            json.dump({"arguments": vars(args), "curve": curve}, file, indent=2)
    return curve


def legal_form(space: Any, action: Any) -> Any:
    """A network's actions (N, A, …) as the environment takes them."""
    if isinstance(space, spaces.Discrete):
        return action + space.start
    return np.clip(action, space.low, space.high)


def literals(made: dict[str, str]) -> dict[str, Any]:
    """Python values where the text is one, otherwise the text."""
    out: dict[str, Any] = {}
    for name, text in made.items():
        try:
            out[name] = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            out[name] = text
    return out


if __name__ == "__main__":  # worker processes import this file
    main(arguments())
