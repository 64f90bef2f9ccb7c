"""What every layout has in common: arguments, states, who is live, asynchronous stepping.

A layout turns what the caller gives into `Actions` and a `Frame` into what comes back; this
file decides what is legal when.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import (
    ConfigError,
    SnapshotError,
    StateError,
)
from ..types import Array, BoolArray
from .contract import VecSpec
from .frames import Frame
from .legal import Legal

__all__ = ["Core"]


class Core(Legal):
    """A vector of environments, whatever its layout.

    Attributes:
        num_envs: how many.
        live: (N, A) bool, who must be given an action next.
        acted: (N, A) bool, who was live before this step: the loss mask.
        episode_over: (N,) bool, the environment ended in this step.
        was_reset: (N,) bool, this step was an automatic reset, to be left out of a buffer.
        pool: how the environments are run; ``pool.explain()`` says why.
        env_ids: after `recv`, the environments of its rows; otherwise all.
    """

    layout: str = ""

    def _begin(
        self,
        backend: Any,
        *,
        copy: bool = True,
        batch_size: int | None = None,
    ) -> None:
        spec: VecSpec = backend.spec
        self._backend, self._spec, self.copy = backend, spec, copy
        self._count = spec.num_envs
        self.batch_size = batch_size if batch_size is not None else spec.num_envs
        self.render_mode = spec.render_mode
        self.metadata: dict[str, Any] = {**spec.metadata, "autoreset_mode": _member(spec.mode)}
        self.agents = self.possible_agents = list(spec.agents)
        self.groups = {group.name: group.agents for group in spec.groups}
        self._status = "new"  # then ready, failed, closed
        self._begun: BoolArray = np.zeros(spec.num_envs, np.bool_)
        self._busy: BoolArray = np.zeros(spec.num_envs, np.bool_)  # sent, and not yet received
        self._flying = 0  # how many of them
        self._live: BoolArray = np.zeros((spec.num_envs, len(spec.agents)), np.bool_)
        self._turn: Array = np.full(spec.num_envs, -1)
        self._ended: BoolArray = np.zeros(spec.num_envs, np.bool_)
        self._all_live = False
        self._frame: Frame | None = None
        self._strange = spec.open_names or spec.reserved > 0  # names may come that are not known
        self._side_of: dict[int, Any] = {}  # the last side of each environment
        self._spaces: Any = None
        self._everyone: Array = np.arange(spec.num_envs)
        self.env_ids = self._everyone
        self._pid = os.getpid()
        # What a backend can find wrong before anything has moved.
        self._check = getattr(backend, "check", _nothing)
        self._check_reset = getattr(backend, "check_reset", _nothing)
        self._finalizer = weakref.finalize(self, _close, backend, self._pid)

    # ---- what a layout does

    def _take(self, actions: Any, envs: Array | None) -> None:
        """Write the actions of the live agents of `envs` (None: all) to the backend."""
        raise NotImplementedError

    def _present_reset(self, frame: Frame) -> Any:
        raise NotImplementedError

    def _present(self, frame: Frame) -> Any:
        raise NotImplementedError

    # ---- all at once

    def _reset(self, seed: Any, options: Any) -> Frame:
        chosen, seeds, each = self._checked_reset("reset", seed, options)
        drained = self._busy.copy()
        self._drain()
        self._status = "failed"  # until it has succeeded
        frame: Frame = self._backend.reset(chosen, seeds, each)
        self._begun |= True if chosen is None else chosen
        self._status = "ready" if self._begun.all() else "new"
        self._start(chosen)
        self._note(frame, None, chosen)
        if drained.any() and not self._strange:  # in a step whose results nobody was told
            self._ended |= drained & ~self._live.any(axis=1)
        return frame

    def _checked_reset(
        self, what: str, seed: Any, options: Any
    ) -> tuple[BoolArray | None, list[int | None], list[Any]]:
        """Which environments are reset (None: all), their seeds and options; nothing has moved."""
        self._must_be_open(what)
        chosen, each = self._checked_options(options)
        if chosen is not None and chosen.all():
            chosen = None
        seeds = self._checked_seed(seed)
        if self._status == "failed" and chosen is not None:
            raise StateError(
                f"{self._name}.{what}: an earlier call failed, so all environments must be reset"
            )
        self._check_reset(chosen, seeds, each)
        return chosen, seeds, each

    def _drain(self) -> None:
        """Forget what is in flight, or was interrupted."""
        self._backend.drain()
        self._busy[:], self._flying = False, 0

    def _start(self, chosen: BoolArray | None) -> None:
        """Called when environments (None: all) are reset: for what a layout knows of episodes."""

    def _step(self, actions: Any) -> Frame:
        if self._status != "ready" or self._pid != os.getpid():
            self._refuse("step")
        if self.batch_size < self._count:
            raise StateError(
                f"{self._name}.step: with batch_size={self.batch_size} of {self._count} "
                "environments use send and recv"
            )
        if self._flying:
            raise StateError(
                f"{self._name}.step: environments {np.flatnonzero(self._busy).tolist()} are "
                "stepping since send; recv their results first"
            )
        if self._spec.mode == "disabled" and self._ended.any():
            self._refuse_ended(np.flatnonzero(self._ended))
        self._take(actions, None)
        self._check(None)
        self._status = "failed"  # until it has succeeded
        frame: Frame = self._backend.step()
        if self._status == "failed":  # and not closed by another thread
            self._status = "ready"
        self._note(frame, None)
        return frame

    def _note(self, frame: Frame, envs: Array | None, chosen: BoolArray | None = None) -> None:
        """Remember who is live.

        Args:
            frame: of a step or reset.
            envs: the environments of its rows; None: all in order.
            chosen: after a reset of some environments which; the others are as they were.
        """
        self._frame = frame
        if self._strange and (frame.side.slots or frame.side.extras or self._side_of):
            told = envs if chosen is None else np.flatnonzero(chosen)
            for env in range(self._count) if told is None else told.tolist():
                self._side_of[env] = frame.side
        if envs is None and frame.usual:
            self.env_ids = self._everyone
            if not self._all_live:
                self._live[:] = True
                self._ended[:] = False
                self._all_live = True
        elif envs is None:
            self.env_ids = self._everyone
            self._live[:] = frame.live
            self._all_live = bool(self._live.all())
            if chosen is not None:
                self._ended[chosen] = False
            elif not self._all_live or self._ended.any():
                self._ended[:] = frame.over if self._spec.mode != "same_step" else False
            if self._spec.kind == "aec":
                self._turn[:] = frame.turn
        else:
            self.env_ids = envs
            self._live[envs] = frame.live
            self._turn[envs] = frame.turn
            self._ended[envs] = frame.over if self._spec.mode != "same_step" else False
            self._all_live = bool(self._live.all())

    # ---- asynchronously

    def async_reset(self, seed: Any = None, options: Any = None) -> None:
        """Begin episodes; `recv` gives the observations as they come.

        A reset of all environments forgets what is in flight; one of some leaves the others be.

        Args:
            seed: as in `reset`.
            options: as in `reset`.

        Raises:
            StateError: one of the environments that ``options["reset_mask"]`` chooses is stepping.
        """
        chosen, seeds, each = self._checked_reset("async_reset", seed, options)
        if chosen is None:
            self._drain()
        else:
            busy = np.flatnonzero(chosen & self._busy)
            if busy.size:
                raise StateError(
                    f"{self._name}.async_reset: environment {int(busy[0])} is stepping; recv its "
                    "result first, or reset all"
                )
        self._status = "failed"  # until it has succeeded
        self._backend.send_reset(chosen, seeds, each)
        self._start(chosen)
        these = np.ones(self._count, np.bool_) if chosen is None else chosen
        self._begun |= these
        self._busy |= these
        self._flying = int(self._busy.sum())
        self._live[these] = False
        self._ended[these] = False
        self._status = "ready" if self._begun.all() else "new"

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Let environments step without waiting for them.

        Args:
            actions: in the layout's form, one row for each of `env_ids`, in their order.
            env_ids: (rows,) which environments; by default those of the last `recv`, or all.

        Raises:
            StateError: one of them is stepping already, or was never reset.
        """
        if self._status != "ready" or self._pid != os.getpid():
            self._refuse("send")
        envs = self._checked_ids(env_ids)
        busy = envs[self._busy[envs]]
        if busy.size:
            raise StateError(
                f"{self._name}.send: environment {int(busy[0])} is stepping already; recv its "
                "result first"
            )
        ended = envs[self._ended[envs]]
        if self._spec.mode == "disabled" and ended.size:
            self._refuse_ended(ended)
        self._take(actions, envs)
        self._check(envs)
        self._busy[envs] = True
        self._flying += len(envs)
        self._backend.send(envs)

    def _recv(self) -> Frame:
        self._must_be_open("recv")
        if self._status != "ready":
            self._refuse("recv")
        if self._flying < self.batch_size:
            raise StateError(
                f"{self._name}.recv: {self._flying} environments are stepping, fewer than "
                f"batch_size={self.batch_size}; send first"
            )
        self._status = "failed"  # until it has succeeded
        envs: Array
        frame: Frame
        envs, frame = self._backend.recv(self.batch_size)
        self._status = "ready"
        self._busy[envs] = False
        self._flying -= len(envs)
        self._note(frame, envs)
        return frame

    def _strangers(self, env: int) -> tuple[dict[str, int], dict[str, Any]]:
        """Who was not announced: name -> reserved slot, and who is live without one."""
        side = self._side_of.get(env)
        if side is None:
            return {}, {}
        return side.slots.get(env, {}), side.extras.get(env, {}).get("live", {})

    def _named(self, row: int, slot: int, before: bool = False) -> str:
        """The agent of a slot; agents that were not announced have been given theirs.

        Args:
            row: of the last results.
            slot: the agent's.
            before: who had it in the step, where a same-step reset has given it away since.
        """
        agents = self._spec.agents
        if slot >= len(agents) - self._spec.reserved:
            env = int(self.env_ids[row])
            taken, _ = self._strangers(env)
            if before and self._spec.mode == "same_step" and self._frame.over[row]:  # type: ignore[union-attr]
                taken = self._frame.side.final_slots.get(env, {})  # type: ignore[union-attr]
            return next((name for name, its in taken.items() if its == slot), agents[slot])
        return agents[slot]

    def _space_of(self, env: int, slot: int) -> Any:
        """The action space of an agent in one environment, always the same object."""
        agent = self._spec.agents[slot]
        if self._spec.env_spaces is not None and agent in self._spec.env_spaces[env]:
            return self._spaces.envs[env][agent][1]
        return self._spaces.action[agent]

    # ---- what is known after a step

    def _shown(self, name: str) -> Array:
        if self._frame is None:
            raise StateError(f"{self._name}.{name}: nothing is known before the first reset")
        # A copy: whoever writes into it must not change what a reset of some goes on from.
        values: Array = getattr(self._frame, name)
        return values.copy() if self.copy else values[:]

    @property
    def live(self) -> BoolArray:
        """(N, A) bool, who must be given an action next."""
        return self._shown("live")

    @property
    def acted(self) -> BoolArray:
        """(N, A) bool, who was live before this step."""
        return self._shown("acted")

    @property
    def episode_over(self) -> BoolArray:
        """(N,) bool, the environment ended in this step."""
        return self._shown("over")

    @property
    def was_reset(self) -> BoolArray:
        """(N,) bool, this step was an automatic reset of next-step mode."""
        return self._shown("was_reset")

    @property
    def turn(self) -> Array:
        """(N,) int64, the slot that acts next in a turn-based environment, -1 where none does."""
        return self._shown("turn")

    @property
    def slots(self) -> list[dict[str, int]]:
        """Per environment: name -> slot of the agents that have a reserved one."""
        return [dict(self._strangers(env)[0]) for env in range(self._count)]

    @property
    def np_random_seed(self) -> Any:
        """(N,) the seed of each environment's random stream, also where none was given."""
        own = getattr(self._backend, "np_random_seed", None)
        return self.call("np_random_seed") if own is None else own

    @property
    def pool(self) -> Any:
        """How the environments are run; ``pool.explain()`` says why."""
        return self._backend.pool

    # ---- the environments themselves

    def call(self, name: str, *args: Any, envs: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        """A method's results, or an attribute's values, one for each environment.

        Args:
            name: looked for through wrappers.
            *args: for the method.
            envs: indices of environments; all by default.
            **kwargs: for the method.
        """
        self._must_be_open("call")
        self._must_be_name(name)
        self._must_rest("call")
        return tuple(self._backend.call(name, args, kwargs, self._checked_envs(envs)))

    def get_attr(self, name: str, envs: Any = None) -> tuple[Any, ...]:
        """An attribute of each environment."""
        return self.call(name, envs=envs)

    def set_attr(self, name: str, values: Any, envs: Any = None) -> None:
        """Set an attribute in each environment.

        Args:
            name: looked for through wrappers.
            values: a list or tuple with one for each; anything else is given to all.
            envs: indices of environments; all by default.
        """
        self._must_be_open("set_attr")
        self._must_be_name(name)
        self._must_rest("set_attr")
        chosen = self._checked_envs(envs)
        if not isinstance(values, (list, tuple)):
            values = [values] * len(chosen)
        if len(values) != len(chosen):
            raise ConfigError(
                f"{self._name}.set_attr({name!r}): expected {len(chosen)} values, one for each "
                f"environment, got {len(values)}"
            )
        self._backend.set_attr(name, list(values), chosen)

    def render(self, env: int | None = None) -> Any:
        """A picture of every environment, as a tuple, or of one.

        Args:
            env: which one; None: all.
        """
        self._must_be_open("render")
        self._must_rest("render")
        if self.render_mode is None:
            warnings.warn(
                f"{self._name}.render: make the vector with render_mode='rgb_array' (or "
                "'human') to see something",
                stacklevel=2,
            )
            return None
        frames = self._backend.render(self._checked_envs(None if env is None else [env]))
        return tuple(frames) if env is None else frames[0]

    def state(self) -> Any:
        """(N, …) the global state of every environment, for a central critic."""
        own = getattr(self._backend, "state", None)
        if own is None:
            return np.stack([np.asarray(one) for one in self.call("state")])
        self._must_be_open("state")
        self._must_rest("state")
        return own()

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what happens next, as numpy arrays and numbers.

        The same on every pool. Only of native worlds: nobody can save an environment that keeps
        its state to itself.

        Raises:
            StateError: a world was not reset, the last call failed, environments are stepping
                since `send`, or they are no native worlds.
        """
        self._must_be_native("state_dict")
        if self._status != "ready" or self._pid != os.getpid():
            self._refuse("state_dict")
        self._must_rest("state_dict")
        return {"vector": self._backend.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Go on where a state was taken, on any pool.

        Args:
            state: of `state_dict`, of as many worlds of the same model.

        Returns:
            Observations and infos, as `reset`.

        Raises:
            SnapshotError: it is of something else. Nothing was changed.
            StateError: the environments are no native worlds.
        """
        self._must_be_open("load_state_dict")
        self._must_be_native("load_state_dict")
        if not isinstance(state, Mapping) or "vector" not in state:
            raise SnapshotError(
                f"{self._name}.load_state_dict: expected a dict of state_dict(), got "
                f"{type(state).__name__}"
            )
        frame: Frame = self._backend.load_state_dict(state["vector"])
        self._busy[:], self._flying = False, 0
        self._begun[:] = True
        self._status = "ready"
        self._note(frame, None)
        return self._present_reset(frame)

    def close(self, timeout: float | None = None) -> None:
        """Close every environment once, and end the workers. May be called at any time, twice.

        Args:
            timeout: how long to wait for environments that are still stepping, s.
        """
        if self._status == "closed":
            return
        self._status = "closed"
        self._finalizer.detach()
        if self._pid == os.getpid():
            self._backend.close(timeout)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        spec = self._spec
        size = f"{len(spec.agents)} agents" if spec.kind != "gymnasium" else "1 agent"
        groups = ", ".join(f"{g.name} ({len(g)})" for g in spec.groups[:4])
        more = "" if len(spec.groups) < 5 else ", …"
        how = type(self._backend).__name__.lower()
        state = {"new": "not yet reset"}.get(self._status, self._status)
        why = getattr(self.pool, "explain", lambda: "")()
        return (
            f"<{spec.num_envs} of {spec.name}: {size} in {groups}{more}; layout {self.layout!r}, "
            f"{how}, autoreset {spec.mode!r}; {state}"
            + (f"; {why.splitlines()[0]}" if why else "")
            + ">"
        )


def _nothing(*given: Any) -> None:
    """A check that a backend doesn't make."""


def _member(mode: str) -> Any:
    from gymnasium.vector import AutoresetMode

    return {
        "next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP,
        "disabled": AutoresetMode.DISABLED,
    }[mode]  # fmt: skip


def _close(backend: Any, pid: int) -> None:
    if os.getpid() == pid:
        backend.close()
