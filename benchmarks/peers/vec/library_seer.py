"""This project, in every layout and backend, and with sending and receiving."""

import numpy as np
import workloads
from adapter import BATCHES, Adapter

import seer

__all__ = ["Seer", "SeerAsync"]


class Seer(Adapter):
    """`seer.make_vec`; the options are its arguments."""

    package = "seer-marl"

    def start(self):
        options = {"layout": "dict", "autoreset": "same_step", **self.options}
        self.vec = seer.make_vec(workloads.factory(self.workload), self.copies, **options)
        self.batches = self.in_layout(self.copies)
        self.reset(0)

    def in_layout(self, rows):
        """Random actions for so many environments, as the layout takes them."""
        layout, count = self.vec.layout, len(self.names)
        if layout == "list":
            return self.by_name()
        arrays = self.draw(rows, count)
        if layout == "flat":
            return [a.reshape(rows * count, *a.shape[2:]) for a in arrays]
        if layout == "dict":
            return [dict(zip(self.names, np.moveaxis(a, 1, 0).copy(), strict=True)) for a in arrays]
        parts = {group: self.draw(rows, len(names)) for group, names in self.vec.groups.items()}
        return [{group: parts[group][k] for group in parts} for k in range(BATCHES)]

    def reset(self, seed):
        self.vec.reset(seed=seed)

    def step(self):
        self.vec.step(self.next())

    def close(self):
        self.vec.close()


class SeerAsync(Seer):
    """Batches of whoever is ready; the policy comes between receiving and sending."""

    def start(self):
        self.per_step = self.options["batch_size"]
        super().start()
        self.batches = self.in_layout(self.per_step)

    def reset(self, seed):
        self.vec.async_reset(seed=seed)
        self.pending = None

    def step(self):
        if self.pending is not None:
            self.vec.send(self.next(), self.pending)
        self.pending = self.vec.recv()[4]["env_id"]
