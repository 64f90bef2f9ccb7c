"""SuperSuit: agents as rows of one array, copies side by side."""

import supersuit
import workloads
from adapter import Adapter

__all__ = ["SuperSuit"]


class SuperSuit(Adapter):
    """Option `processes`: 0 for none."""

    package = "supersuit"

    def start(self):
        env = workloads.make(self.workload)
        if self.workload == "kaz":
            env = supersuit.black_death_v3(env)  # its way for agents that die
        self.vec = supersuit.concat_vec_envs_v1(
            supersuit.pettingzoo_env_to_vec_env_v1(env), self.copies,
            num_cpus=self.options.get("processes", 0), base_class="gymnasium",
        )  # fmt: skip
        self.batches = self.draw(self.copies * len(self.names))
        self.reset(0)

    def reset(self, seed):
        self.vec.reset(seed=seed)

    def step(self):
        self.vec.step(self.next())

    def close(self):
        self.vec.close()
