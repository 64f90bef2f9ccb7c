"""What happens to environments in flight when their worker ends: an error, or a successor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import WorkerDiedError
from ..types import BoolArray
from . import side as sides
from .contract import EnvFailure
from .flights import Flights
from .link import Link

__all__ = ["Succession"]


class Succession(Flights):
    """Puts workers in the place of those that have ended."""

    def _look_after(self) -> bool:
        """Replace workers that ended while environments of theirs are in flight; if there are."""
        found = False
        for link in self._links:
            if self._missing(link).any() and not link.alive():
                found = True
                self._ready_now()
                self._fetch()  # its last words
                if self._missing(link).any():
                    self._replace(link, np.ones(link.hi - link.lo, np.bool_))
        return found

    def _replace_dead(self, chosen: BoolArray | None) -> None:
        """Replace workers that are gone.

        Args:
            chosen: (N,) the environments that are about to be reset; None: all.
        """
        if self._flying.any():
            self._ready_now()
            self._fetch()
        for link in self._links:
            if not link.alive():
                rows = slice(link.lo, link.hi)
                stays = np.zeros(link.hi - link.lo, np.bool_) if chosen is None else ~chosen[rows]
                self._replace(link, stays)

    def _replace(self, link: Link, stays: BoolArray, count: bool = False) -> None:
        """Another worker in the place of one that has ended.

        Args:
            link: where.
            stays: of its environments, whether it is not about to be reset. Those have lost
                their episodes: who waits for them is told at once, who doesn't with the next step.
            count: it is a restart in any case, even if nothing is lost.

        Raises:
            WorkerDiedError: that is an error, by `on_worker_death`, or happens too often.
        """
        rows = slice(link.lo, link.hi)
        missing, running = self._missing(link), self._told.running(rows)
        if (count or ((running | self._flying[rows]) & stays).any()) and not (
            self._restart and self._crew.may_restart()
        ):
            raise link.error()
        while True:
            try:
                self._crew.replace(link, self._told.before(link.lo, link.hi, link.restarts + 1))
                break
            except WorkerDiedError:  # so soon
                if not self._restart or not self._crew.may_restart():
                    raise
        envs = np.arange(link.lo, link.hi)
        if self._restart:
            self._lost.update(envs[stays & ~missing].tolist())
        again = [env for env in envs[stays & missing].tolist() if env in self._resets]
        rest = [env for env in envs[stays & missing & ~running].tolist() if env not in again]
        self._renewed.update((env, link.restarts) for env in (*again, *rest))
        self._cut_off(link, [e for e in envs[stays & missing & running].tolist() if e not in again])
        self._command_resets(link, again, link.restarts)
        self._command(link, rest)

    def _cut_off(self, link: Link, envs: Sequence[int]) -> None:
        """Answer for environments whose worker has ended."""
        self._lost.difference_update(envs)
        self._number(envs)
        for env in envs:
            try:
                self._fetched[env] = sides.dumps(self._rescue(link, self._spare, [env]))
            except EnvFailure as failure:
                self._fetched[env] = failure
            except WorkerDiedError:  # the new one, too: noticed in the wait for it
                continue
            self._wire.say(link.host, env, 0)
            self._wire.publish(link.host, env, int(self._wanted_of[env]))

    def _give_up(self) -> None:
        missing = np.flatnonzero(self._flying & (self._ready_of == 0))
        hosts = set(self._wire.host_of[missing].tolist())
        raise self._crew.late(
            [link for link in self._links if link.host in hosts], missing.tolist()
        )  # fmt: skip
