"""Stable-Baselines3's vectors of single-agent environments; all agents as one."""

import workloads
from adapter import Adapter
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

__all__ = ["StableBaselines3"]


class StableBaselines3(Adapter):
    """Option `mode`: "subproc" (a process each) or "dummy"."""

    package = "stable_baselines3"

    def start(self):
        factories = [workloads.joint_factory(self.workload)] * self.copies
        if self.options.get("mode") == "dummy":
            self.vec = DummyVecEnv(factories)
        else:
            self.vec = SubprocVecEnv(factories, start_method="fork")  # only starts sooner
        self.batches = self.draw(self.copies, len(self.names))
        self.reset(0)

    def reset(self, seed):
        self.vec.seed(seed)
        self.vec.reset()

    def step(self):
        self.vec.step(self.next())

    def close(self):
        self.vec.close()
