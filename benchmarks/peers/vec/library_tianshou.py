"""Tianshou's vectors of single-agent environments; all agents as one."""

import numpy as np
import tianshou.env
import workloads
from adapter import Adapter

__all__ = ["Tianshou"]


class Tianshou(Adapter):
    """Option `kind`: a class of tianshou.env. It leaves resets to the caller."""

    package = "tianshou"

    def start(self):
        kind = getattr(tianshou.env, self.options.get("kind", "ShmemVectorEnv"))
        self.vec = kind([workloads.joint_factory(self.workload)] * self.copies)
        self.batches = self.draw(self.copies, len(self.names))
        self.reset(0)

    def reset(self, seed):
        self.vec.reset(seed=seed)

    def step(self):
        _, _, ended, cut, _ = self.vec.step(self.next())
        over = ended | cut
        if over.any():
            self.vec.reset(np.flatnonzero(over))

    def close(self):
        self.vec.close()
