"""Mean and variance of what came by so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import SnapshotError
from ..types import Array

__all__ = ["Moments"]


class Moments:
    """Mean and variance of all samples, element by element.

    Batches are joined by the pairwise formula of Chan, Golub and LeVeque, "Updating formulae and
    a pairwise algorithm for computing sample variances", 1979.

    Args:
        shape: of one sample.

    Attributes:
        count: how many samples.
        mean: (*shape) float64.
        spread: (*shape) float64, the sum of squared differences from the mean.
    """

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.count = 0
        self.mean: Array = np.zeros(shape)
        self.spread: Array = np.zeros(shape)

    @property
    def variance(self) -> Array:
        """(*shape) float64; 1 before there are two samples."""
        if self.count < 2:
            return np.ones_like(self.mean)
        variance: Array = self.spread / self.count
        return variance

    def add(self, samples: Array) -> None:
        """Take in samples.

        Args:
            samples: (n, *shape) numbers.
        """
        n = len(samples)
        if not n:
            return
        values = samples.astype(np.float64, copy=False)
        mean = values.mean(0)
        total = self.count + n
        away = mean - self.mean
        self.spread = (
            self.spread + np.square(values - mean).sum(0) + away * away * (self.count * n / total)
        )
        self.mean = self.mean + away * (n / total)
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        """Everything, as numbers and arrays of its own."""
        return {"count": self.count, "mean": self.mean.copy(), "spread": self.spread.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            SnapshotError: it is not of that form, or of other shapes.
        """
        try:
            mean = np.array(state["mean"], np.float64)
            spread = np.array(state["spread"], np.float64)
            count = int(state["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"moments: expected count, mean and spread, got {state!r:.200} ({error!r})"
            ) from None
        if mean.shape != self.mean.shape or spread.shape != self.mean.shape:
            raise SnapshotError(
                f"moments: expected shape {self.mean.shape}, got {mean.shape} and {spread.shape}"
            )
        self.count, self.mean, self.spread = count, mean, spread

    def __repr__(self) -> str:
        return f"Moments({self.count} samples, mean {self.mean}, variance {self.variance})"
