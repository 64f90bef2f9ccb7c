"""Where wrapped environments shall live: by the arguments, and where these are open, by a probe."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..hardware import usable_cpus
from .arguments import Arguments
from .config import ProcessConfig, choose
from .describe import EnvDescription
from .factory import unsendable
from .probe import MAX_SECONDS, Probe, probe
from .sources import Source

__all__ = ["Chooser"]

_MOST_PROBES = 16
_LEAST = 0.02
"""How long each kind of factory is stepped at least, where there are many, s."""

_PROBING = 1.0
"""When no further kind is looked at, s; the first always is."""


class Chooser:
    """Where the environments shall live."""

    def __init__(self, source: Source, arguments: Arguments) -> None:
        self._source, self._arguments = source, arguments
        self.probed: Probe | None = None

    def config(self) -> tuple[ProcessConfig, list[float] | None]:
        """How to share, with the reason, and what each environment costs where that is known."""
        a, count = self._arguments, len(self._source.factories)
        pool, isolation = a.pool, a.isolation()
        human = self._human()
        if a.backend == "serial":
            return ProcessConfig(0, reason="backend='serial' was asked for"), None
        crew = isinstance(pool, ProcessConfig) and pool.workers > 0
        if human and count > 1 and (isolation or crew or a.backend == "process"):
            asked = isolation or (f"pool={pool!r}" if crew else "backend='process'")
            raise ConfigError(
                f"make_vec(render_mode='human', {asked}): only a single environment, or "
                "backend='serial', can open windows; use render_mode='rgb_array'"
            )
        if isinstance(pool, ProcessConfig):
            share = {"caller_share": 0.0} if isolation and pool.workers else {}
            why = "pool=ProcessConfig(…) was asked for"
            return replace(pool, reason=why, **share), self._differing_costs(isolation)  # type: ignore[arg-type]
        if a.workers is not None:
            why = f"workers={a.workers} was asked for, which keeps every environment in a worker"
            return ProcessConfig(a.workers, caller_share=0.0, reason=why), None
        cpus = usable_cpus()
        apart = isolation
        if not apart and a.batch_size is not None and a.batch_size < count:
            apart = f"batch_size={a.batch_size}"
        if isolation or (apart and a.backend == "process"):
            return choose([1.0] * count, cpus, isolate=True, why=apart), None
        if a.backend == "process":
            workers = max(1, min(cpus, count) - 1)
            why = f"backend='process' was asked for; {cpus} usable CPUs, {count} environments"
            return ProcessConfig(workers, reason=why), self._differing_costs("")
        if human:
            why = "render_mode='human' opens windows, which the caller must do itself"
            return ProcessConfig(0, reason=why), None
        if count == 1 or cpus == 1:
            return choose([1.0] * count, cpus), None
        if not a.probe:
            why = "probe=False: what a step costs is not known; ask for backend='process' if it "
            return ProcessConfig(0, reason=why + "takes more than about 20 us"), None
        costs = self._costs()
        if costs is None:
            assert self.probed is not None
            why = f"the probe failed ({self.probed.error}), so nothing is known of a step's cost"
            return ProcessConfig(0, reason=why), None
        config = choose(costs, cpus)
        if config.workers and apart:
            # What the caller steps itself would only advance while the caller waits.
            config = choose(costs, cpus, isolate=True, why=apart)
        if config.workers and a.start_method != "fork":
            why = unsendable(self._source.factories)
            if why:
                return ProcessConfig(0, reason=f"{why}, or it would share the work"), None
        return config, costs

    def _human(self) -> bool:
        a = self._arguments
        modes = {factory.kwargs.get("render_mode") for factory in self._source.factories}
        return a.render_mode == "human" or "human" in modes

    def _differing_costs(self, isolation: str) -> list[float] | None:
        """What each environment costs, where they may differ and the caller may look.

        What is to be isolated is never run here.
        """
        factories = self._source.factories
        if isolation or not self._arguments.probe or self._human():
            return None
        if all(factory is factories[0] for factory in factories):
            return None
        return self._costs()

    def _costs(self) -> list[float] | None:
        """(N,) what a step of each environment costs, s; None where it could not be found out."""
        kinds = {factory.key(): factory for factory in self._source.factories}
        span = max(MAX_SECONDS / len(kinds), _LEAST)
        found: dict[Any, float] = {}
        until = time.perf_counter() + _PROBING
        for key, factory in list(kinds.items())[:_MOST_PROBES]:
            if found and time.perf_counter() > until:
                break
            seen = probe(factory, max_seconds=span)
            if self.probed is None or seen.error:
                self.probed = seen
            if seen.steps == 0:
                return None
            found[key] = seen.mean
        typical = sum(found.values()) / len(found)
        return [found.get(f.key(), typical) for f in self._source.factories]

    def description(self) -> EnvDescription | None:
        """Of an instance that was reset, to know who is there."""
        if not self._arguments.probe or self._arguments.isolation():
            return None
        if self.probed is None:
            self.probed = probe(self._source.factories[0], max_steps=1)
        return self.probed.description
