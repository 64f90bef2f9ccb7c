"""AgileRL: a process each, observations in shared memory, agents by name."""

import workloads
from adapter import Adapter
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

__all__ = ["AgileRL"]


class AgileRL(Adapter):
    package = "agilerl"

    def start(self):
        self.vec = AsyncPettingZooVecEnv([workloads.factory(self.workload)] * self.copies)
        self.batches = [
            {name: batch[:, k] for k, name in enumerate(self.names)}
            for batch in self.draw(self.copies, len(self.names))
        ]
        self.reset(0)

    def reset(self, seed):
        self.vec.reset(seed=seed)

    def step(self):
        self.vec.step(self.next())

    def close(self):
        self.vec.close()
