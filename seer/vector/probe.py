"""One extra instance of an environment, made, stepped a little and closed, to see what it costs.

An environment never moves once it lives somewhere, so where it shall live is decided before the
first reset that the user sees, by an instance that he never sees.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SeerError
from .cells import Cell
from .contract import EnvFailure, VecSpec
from .describe import EnvDescription, describe
from .factory import construct, make_cell
from .frames import Frame, FrameLayout
from .layouts import ListVectorEnv
from .merge import merge
from .serial import Serial

__all__ = ["MAX_SECONDS", "MAX_STEPS", "Probe", "probe"]

MAX_STEPS = 50
MAX_SECONDS = 0.2

_SEED = 20_817_364
_GROUP = 3.5e-6
"""What putting the results of a group into arrays costs, for however many environments, s."""

_COLD = 2e-6
"""How much longer a step takes that follows other work than one that follows its like, s."""

_OUTLIER = 30.0
"""A step that takes so many times the median was interrupted by something else."""


@dataclass(frozen=True)
class Probe:
    """What one instance was seen to do.

    Attributes:
        description: of the environment; None where it could not even be made.
        construction: time to make it, s.
        reset: time of its first reset, s.
        steps: how many were made; 0 where none could be.
        mean, median, spread: of the time of a step, automatic resets among them and results
            put into arrays, s; the spread is the standard deviation.
        nbytes: of the results of a step.
        ended: an episode ended while it was looked at.
        error: why it could not be looked at to the end, in words; "" otherwise.
    """

    description: EnvDescription | None = None
    construction: float = 0.0
    reset: float = 0.0
    steps: int = 0
    mean: float = 0.0
    median: float = 0.0
    spread: float = 0.0
    nbytes: int = 0
    ended: bool = False
    error: str = ""


def probe(
    factory: Callable[[], Any], *, max_steps: int = MAX_STEPS, max_seconds: float = MAX_SECONDS
) -> Probe:
    """Make an environment, reset it, step it with random legal actions, and close it.

    The global random generators are left as they were. What goes wrong is contained: the error
    will show where the environment is really used.

    Args:
        factory: makes the environment.
        max_steps: how many steps at most.
        max_seconds: how long at most; one step is always made.

    Returns:
        What was seen.
    """
    seen: dict[str, Any] = {}
    with _untouched_generators(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown when the real ones say the same
        try:
            _watch(factory, seen, max_steps, max_seconds)
        except (Exception, SystemExit) as error:
            cause = error.error if isinstance(error, EnvFailure) else error
            seen["error"] = f"{type(cause).__name__}: {cause}".splitlines()[0]
        finally:
            close = seen.pop("close", None)
            if close is not None:
                with suppress(Exception):
                    close()
    seen.update(_summed_up(seen.pop("times", []), seen.pop("resets", [])))
    return Probe(**seen)


def _watch(
    factory: Callable[[], Any], seen: dict[str, Any], max_steps: int, max_seconds: float
) -> None:
    clock = time.perf_counter
    start = clock()
    (env,) = construct([factory])
    seen["close"], seen["construction"] = getattr(env, "close", None), clock() - start
    description = describe(env)
    if description.agents is None:
        env.reset(seed=_SEED)  # to see who is there
        description = describe(env)
    seen["description"] = description
    spec = merge([description], open_names=True, name="probe")
    times = seen["times"] = []
    vec = ListVectorEnv(_Timed(spec, [make_cell(env, spec, 0)], times))
    seen["close"] = vec.close
    resets = seen["resets"] = []
    vec.seed_spaces(_SEED)
    start = clock()
    vec.reset(seed=_SEED)
    seen["reset"] = clock() - start
    seen["nbytes"] = FrameLayout(spec).nbytes
    until = clock() + max_seconds
    while len(times) < max_steps:
        vec.step(vec.sample_actions())
        seen["steps"] = len(times)
        resets.append(bool(vec.was_reset[0]))
        if vec.episode_over.any():
            seen["ended"] = True
        if clock() > until:
            break


class _Timed(Serial):
    """Notes how long the environment takes, and what is done once for each environment.

    What is done once for all of them, however many there are, is not the environment's cost: it
    is what a step of nobody takes, and the call of numpy for each group of agents.
    """

    def __init__(self, spec: VecSpec, cells: list[Cell], times: list[float]) -> None:
        super().__init__(spec, cells)
        self._times = times

    def step(self) -> Frame:
        """Step and look at the clock."""
        frame = self._next()
        start = time.perf_counter()
        side = self._host.step(frame, self.actions)
        end = time.perf_counter()
        self._host.step(frame, self.actions, ())
        nobody = time.perf_counter() - end
        once = 1.2 * nobody + _GROUP * len(self.spec.groups) + _COLD
        self._times.append(max(end - start - once, 0.1 * (end - start)))
        frame.side = side
        return self._ring.shown(frame)


def _summed_up(times: list[float], resets: list[bool]) -> dict[str, float]:
    """Mean, median and spread of a step."""
    del times[len(resets) :]  # a step that failed
    if len(times) > 1:  # the first one warms caches, and compiles in some
        del times[0], resets[0]
    if not times:
        return {}
    every, reset = np.asarray(times), np.asarray(resets, np.bool_)
    steps = every[~reset] if not reset.all() else every
    median = float(np.median(steps))
    kept = steps[steps <= _OUTLIER * median]
    mean = float(kept.mean())
    if reset.any() and not reset.all():
        share = float(reset.mean())
        mean = (1.0 - share) * mean + share * float(every[reset].mean())
    return {"median": median, "mean": mean, "spread": float(kept.std())}


@contextmanager
def _untouched_generators() -> Iterator[None]:
    """Put the global random generators back: a probe must not shift anybody's numbers."""
    ours = random.getstate()
    numpys = np.random.get_state()  # noqa: NPY002 - the global one is meant
    torch = sys.modules.get("torch")
    torchs = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)  # noqa: NPY002
        if torch is not None:
            with suppress(SeerError, RuntimeError):
                torch.set_rng_state(torchs)
