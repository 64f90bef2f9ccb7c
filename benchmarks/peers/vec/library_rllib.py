"""RLlib's vector of multi-agent environments, in process: one dict for each environment."""

import workloads
from adapter import Adapter
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

__all__ = ["RLlib"]


class RLlib(Adapter):
    package = "ray"

    def start(self):
        def wrapped():
            return ParallelPettingZooEnv(workloads.make(self.workload))

        self.vec = SyncVectorMultiAgentEnv([wrapped] * self.copies)
        self.batches = self.by_name()
        self.all_live = self.workload != "kaz"
        self.reset(0)

    def reset(self, seed):
        observations, _ = self.vec.reset(seed=seed)
        self.live = [list(row) for row in observations]

    def step(self):
        actions = self.next()
        if self.all_live:
            self.vec.step(actions)
            return
        chosen = [
            {agent: row[agent] for agent in live}
            for row, live in zip(actions, self.live, strict=True)
        ]
        seen, _, ended, cut, _ = self.vec.step(chosen)
        self.live = [
            [agent for agent in row if not (e.get(agent) or c.get(agent))]
            for row, e, c in zip(seen, ended, cut, strict=True)
        ]

    def close(self):
        self.vec.close()
