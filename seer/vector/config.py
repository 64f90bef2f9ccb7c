"""How wrapped environments are shared between this process and workers, and the rule for it.

Nothing here shows in results: an environment's trajectory depends on its seed and its actions
alone, wherever it lives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import ConfigError
from ..types import FloatArray, flag, kind_of, whole

__all__ = ["MAX_WORKERS", "ProcessConfig", "choose", "deal"]

MAX_WORKERS = 1024
"""The most worker processes a vector can have."""

_MAX_SPIN_US = 1_000_000.0


@dataclass(frozen=True)
class ProcessConfig:
    """How wrapped environments are shared among processes. Never changes results.

    Args:
        workers: worker processes, 0 to 1024; 0: the caller steps everything itself.
        caller_share: which part of the work the caller steps itself while it would otherwise
            wait, 0 to 1; None: as much as makes all finish together; 0: nothing, every
            environment lives in a worker.
        envs_per_worker: the most environments that one worker is dealt; None: as many as make
            all finish together.
        spin_us: how long a process spins for the next hand-over before it sleeps, us; None:
            chosen by whether every process has a CPU of its own.
        pin: bind worker k to the k-th usable CPU but one; the caller is never bound.

    Raises:
        ConfigError: a value is of the wrong type or out of range, or the values contradict each
            other.
    """

    workers: int
    caller_share: float | None = None
    envs_per_worker: int | None = None
    spin_us: float | None = None
    pin: bool = False
    reason: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("workers", _whole("workers", self.workers, 0, MAX_WORKERS))
        if self.caller_share is not None:
            put("caller_share", _number("caller_share", self.caller_share, 1.0, ""))
        if self.envs_per_worker is not None:
            put("envs_per_worker", _whole("envs_per_worker", self.envs_per_worker, 1, 2**31 - 1))
        if self.spin_us is not None:
            put("spin_us", _number("spin_us", self.spin_us, _MAX_SPIN_US, " us"))
        try:
            put("pin", flag("pin", self.pin))
        except ConfigError:
            raise ConfigError(
                f"ProcessConfig(pin={self.pin!r}): pin must be True or False"
            ) from None
        if self.workers == 0 and self.caller_share is not None and self.caller_share < 1.0:
            raise ConfigError(
                f"ProcessConfig(workers=0, caller_share={self.caller_share:g}): without workers "
                "the caller steps everything; leave caller_share out or ask for a worker"
            )
        if self.workers > 0 and self.caller_share == 1.0:
            raise ConfigError(
                f"ProcessConfig(workers={self.workers}, caller_share=1): a caller that steps "
                "everything leaves nothing to workers; ask for workers=0"
            )

    @property
    def isolated(self) -> bool:
        """Every environment lives in a worker."""
        return self.caller_share == 0.0

    def explain(self) -> str:
        """What is in use and why, in a sentence or two."""
        return f"{self}: {self.reason}" if self.reason else str(self)

    def __str__(self) -> str:
        if self.workers == 0:
            return "the caller alone"
        words = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        if self.caller_share is None:
            words += " and the caller"
        elif self.caller_share > 0:
            words += f" and the caller with {self.caller_share:.0%} of the work"
        if self.envs_per_worker is not None:
            words += f", at most {self.envs_per_worker} environments each"
        spin = "auto" if self.spin_us is None else f"{self.spin_us:g} us"
        return f"{words}, spin {spin}{', pinned' if self.pin else ''}"


def _whole(name: str, value: object, low: int, high: int) -> int:
    number = whole(value)
    if number is None:
        raise ConfigError(
            f"ProcessConfig({name}={value!r}): {name} must be a whole number, got {kind_of(value)}"
        )
    if not low <= number <= high:
        side = f"at least {low}" if number < low else f"at most {high}"
        raise ConfigError(f"ProcessConfig({name}={number}): {name} must be {side}, got {number}")
    return number


def _number(name: str, value: object, high: float, unit: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise ConfigError(
            f"ProcessConfig({name}={value!r}): {name} must be a number, got {kind_of(value)}"
        )
    number = float(value)
    if not math.isfinite(number) or not 0.0 <= number <= high:
        raise ConfigError(
            f"ProcessConfig({name}={value!r}): {name} must lie in [0, {high:.0f}]{unit}"
        )
    return number


# ---- the deal ------------------------------------------------------------------------


def deal(
    num_envs: int, config: ProcessConfig, costs: Sequence[float] | FloatArray | None = None
) -> list[tuple[int, int]]:
    """Who gets which environments.

    Args:
        num_envs: N.
        config: how many workers, and what the caller may take.
        costs: (N,) of a step of each environment, in any unit; None: all alike.

    Returns:
        Contiguous ranges [lo, hi) that cover 0..N in order: first the caller's, which is empty
        where it has no share, then one for every worker, none of them empty. The slowest of
        them is as fast as contiguous ranges allow.

    Raises:
        ConfigError: there are more workers than environments, or too few for
            `envs_per_worker`.
    """
    n, k = num_envs, config.workers
    if k == 0:
        return [(0, n)]
    if k > n:
        raise ConfigError(
            f"{k} workers for {_envs(n)}: every worker needs one; ask for at most {n}"
        )
    weight = np.ones(n) if costs is None else np.maximum(np.asarray(costs, np.float64), 1e-12)
    most = config.envs_per_worker or n
    if config.caller_share is None:
        if k == n:  # one for each worker: nothing is left for the caller
            first = 0
        else:
            return _bounded(_even(weight, k + 1), n, most)
    else:
        shares = np.cumsum(weight) / weight.sum()
        first = int(np.searchsorted(shares, config.caller_share + 1e-9, "right"))
        if config.caller_share > 0:
            first = min(max(first, 1), n - k)
    rest = [(lo + first, hi + first) for lo, hi in _even(weight[first:], k)]
    return _bounded([(0, first), *rest], n, most)


def _bounded(ranges: list[tuple[int, int]], n: int, most: int) -> list[tuple[int, int]]:
    """The ranges, with no worker above `most`; the caller takes what is too much."""
    if max(hi - lo for lo, hi in ranges[1:]) <= most:
        return ranges
    workers = len(ranges) - 1
    lo, hi = ranges[0]
    if hi == lo:
        raise ConfigError(
            f"{workers} workers with at most {most} environments each can't hold {n}; raise "
            "workers or envs_per_worker, or let the caller take a share"
        )
    first = n - workers * most
    return [(0, first), *((a, a + most) for a in range(first, n, most))]


def _even(weight: FloatArray, parts: int) -> list[tuple[int, int]]:
    """Contiguous parts of which none is empty and the heaviest is as light as can be."""
    n = len(weight)
    if weight.max() - weight.min() <= 0.1 * weight.max():  # alike, as far as can be measured
        ends = [n * (k + 1) // parts for k in range(parts)]
    else:
        low, high = float(weight.max()), float(weight.sum()) * (1 + 1e-9)  # sums are rounded
        for _ in range(60):
            middle = (low + high) / 2
            if len(_filled(weight, middle, parts)) <= parts:
                high = middle
            else:
                low = middle
        ends = _filled(weight, high, parts)
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _filled(weight: FloatArray, limit: float, parts: int) -> list[int]:
    """Ends of parts that are filled up to `limit`, leaving one for each part to come."""
    ends: list[int] = []
    load = 0.0
    n = len(weight)
    for k, w in enumerate(weight.tolist()):
        if k and (load + w > limit or n - k <= parts - len(ends) - 1):
            ends.append(k)
            load = 0.0
        load += w
    return [*ends, n]


def _envs(n: int) -> str:
    return "1 environment" if n == 1 else f"{n} environments"


# ---- the rule --------------------------------------------------------------------------

HANDOVER = 20e-6
"""What a vector step costs beyond the environments' own where workers take part, s.

Measured: the step of a vector with one worker, less its environments', is so much longer than
the same of a vector without.
"""

HANDOVER_EACH = 3e-6
"""What each worker adds to it, s."""


def choose(
    costs: Sequence[float],
    cpus: int,
    *,
    isolate: bool = False,
    why: str = "",
) -> ProcessConfig:
    """How to share the work, from what a step costs.

    The time of a vector step is what the slowest process takes, plus the hand-over; the count
    of workers with the least of it is chosen, and of equals the smaller one. A process beyond
    the usable CPUs never pays.

    Args:
        costs: (N,) mean time of a step of each environment, s.
        cpus: how many processes can run at once.
        isolate: every environment must live in a worker.
        why: what made it so, for the explanation.

    Returns:
        The configuration with its reason; 0 workers stand for the serial backend.
    """
    n = len(costs)
    total = float(np.sum(costs))
    if isolate:
        count = max(1, min(cpus, n))
        return ProcessConfig(
            count, caller_share=0.0,
            reason=f"{why or 'isolate=True'} keeps every environment in a worker; "
            f"{_envs(n)} on {_cpus(cpus)}",
        )  # fmt: skip
    if n == 1:
        return ProcessConfig(0, reason="a single environment has nobody to share with")
    if cpus == 1:
        return ProcessConfig(0, reason="this process may use 1 CPU")
    best, best_time = 0, total
    for workers in range(1, min(cpus, n)):
        time = _time(costs, workers)
        if time < best_time * 0.99:
            best, best_time = workers, time
    step = f"a step takes {_us(total / n)} per environment"
    if best == 0:
        other = _time(costs, 1)
        return ProcessConfig(
            0,
            reason=f"{step}, {_us(total)} for all {n}; with a worker it would be about "
            f"{_us(other)}, the hand-over included",
        )
    return ProcessConfig(
        best,
        reason=f"{step}, {_us(total)} for all {n}; shared among {best + 1} processes about "
        f"{_us(best_time)}, the hand-over included ({_cpus(cpus)})",
    )


def _time(costs: Sequence[float], workers: int) -> float:
    weight = np.asarray(costs, np.float64)
    ranges = deal(len(weight), ProcessConfig(workers), weight)
    slowest = max(float(weight[lo:hi].sum()) for lo, hi in ranges)
    return slowest + HANDOVER + HANDOVER_EACH * workers


def _cpus(cpus: int) -> str:
    return "1 usable CPU" if cpus == 1 else f"{cpus} usable CPUs"


def _us(seconds: float) -> str:
    """A time for people."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
