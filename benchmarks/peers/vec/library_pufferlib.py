"""PufferLib: serial, or workers that spin over shared memory."""

import functools

import numpy as np
import pufferlib.emulation
import pufferlib.vector
import workloads
from adapter import Adapter

__all__ = ["PufferLib"]


class PufferLib(Adapter):
    """Option `processes`: 0 for its serial backend."""

    package = "pufferlib"

    def start(self):
        wrap = functools.partial(
            pufferlib.emulation.PettingZooPufferEnv, env_creator=workloads.make,
            env_args=[self.workload],
        )  # fmt: skip
        count, processes = self.copies, self.options.get("processes", 0)
        given = ([wrap] * count, [[]] * count, [{}] * count, count)
        if processes:
            self.vec = pufferlib.vector.Multiprocessing(
                *given, num_workers=min(processes, count), batch_size=count, overwork=True
            )
        else:
            self.vec = pufferlib.vector.Serial(*given)
        kind = np.int32 if np.issubdtype(self.action_space.dtype, np.integer) else np.float32
        self.batches = [batch.astype(kind) for batch in self.draw(count * len(self.names))]
        self.reset(0)

    def reset(self, seed):
        self.vec.async_reset(seed)
        self.vec.recv()

    def step(self):
        self.vec.send(self.next())
        self.vec.recv()

    def close(self):
        self.vec.close()
