"""TorchRL: a process each, tensors in shared memory."""

import functools

import torch
import workloads
from adapter import BATCHES, Adapter
from torchrl.envs import ParallelEnv, SerialEnv
from torchrl.envs.libs.pettingzoo import PettingZooWrapper

__all__ = ["TorchRL"]


def wrapped(workload):
    torch.set_num_threads(1)
    dying = workload == "kaz"
    return PettingZooWrapper(
        workloads.make(workload), use_mask=dying, done_on_any=False if dying else None
    )


class TorchRL(Adapter):
    """Option `mode`: "parallel" or "serial"."""

    package = "torchrl"

    def start(self):
        torch.set_num_threads(1)
        make = functools.partial(wrapped, self.workload)
        if self.options.get("mode") == "serial":
            self.vec = SerialEnv(self.copies, make)
        else:
            self.vec = ParallelEnv(self.copies, make, mp_start_method="fork", num_threads=1)
        self.reset(0)
        keys = self.vec.action_keys
        self.batches = [
            self.vec.rand_action(self.data.clone()).select(*keys) for _ in range(BATCHES)
        ]

    def reset(self, seed):
        self.vec.set_seed(seed)
        self.data = self.vec.reset()

    def step(self):
        self.data.update(self.next())
        _, self.data = self.vec.step_and_maybe_reset(self.data)

    def close(self):
        self.vec.close()
