"""Gymnasium's vectors of single-agent environments; all agents as one."""

import gymnasium.vector
import workloads
from adapter import Adapter

__all__ = ["Gymnasium"]


class Gymnasium(Adapter):
    """Option `mode`: "async" (a process each) or "sync"."""

    package = "gymnasium"

    def start(self):
        factories = [workloads.joint_factory(self.workload)] * self.copies
        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        if self.options.get("mode", "async") == "sync":
            self.vec = gymnasium.vector.SyncVectorEnv(factories, autoreset_mode=mode)
        else:
            self.vec = gymnasium.vector.AsyncVectorEnv(factories, autoreset_mode=mode)
        self.batches = self.draw(self.copies, len(self.names))
        self.reset(0)

    def reset(self, seed):
        self.vec.reset(seed=seed)

    def step(self):
        self.vec.step(self.next())

    def close(self):
        self.vec.close()
