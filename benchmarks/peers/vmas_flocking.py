"""VMAS (PyPI ``vmas``): flocking in batched worlds on torch, on the CPU.

Runs in an interpreter that has vmas and torch; see ``peer.py`` for the protocol. A step moves all
agents of all worlds with random actions, which are drawn before the clock starts.

    python benchmarks/peers/vmas_flocking.py --worlds 1024 --agents 16 --threads 2 --steps 20
"""

import argparse

import serve
import torch
import vmas


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--scenario", default="flocking")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    serve.add_arguments(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    env = vmas.make_env(
        scenario=args.scenario, num_envs=args.worlds, device="cpu", continuous_actions=True,
        seed=args.seed, n_agents=args.agents,
    )  # fmt: skip
    env.reset()
    actions = [[env.get_random_action(a) for a in env.agents] for _ in range(8)]
    turn = [0]

    def step():
        turn[0] = (turn[0] + 1) % len(actions)
        env.step(actions[turn[0]])

    info = {
        "peer": "vmas",
        "scenario": args.scenario,
        "worlds": args.worlds,
        "agents": args.agents,
        "threads": args.threads,
        "torch": torch.__version__,
    }
    serve.serve(step, info, "vmas", args)


if __name__ == "__main__":
    main()
