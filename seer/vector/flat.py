"""The layout flat: one row for each environment and agent, as a Gymnasium vector environment.

Row ``env · A + slot`` is an agent of an environment. Gymnasium begins a new episode in every row
of its own accord; agents that share an environment can't, so a row whose agent has ended waits:
its observation is filler, its reward 0, its flags False, its action ignored and
``infos["live"][row]`` False, until its environment begins a new episode.

Gymnasium's `RecordEpisodeStatistics` would count the steps of rows that wait. Where agents share
an environment the infos have what it would add, ``infos["episode"]`` with r, l and t, at each
agent's own end; put around such a vector that wrapper needs another ``stats_key``, or is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from ..errors import ConfigError
from ..types import Array, BoolArray
from .base import Core
from .contract import VecSpec
from .flat_life import Earnings, Together
from .flat_rows import Rows, flat_spaces
from .frames import Frame
from .leaves import is_mask
from .sampling import sample
from .spaces import VectorSpaces

__all__ = ["AsyncFlatVectorEnv", "FlatVectorEnv", "flat_env"]

Result = tuple[Any, Array, BoolArray, BoolArray, dict[str, Any]]


def flat_env(
    backend: Any, *, copy: bool = True, batch_size: int | None = None, dead: str = "mask"
) -> FlatRows:
    """The flat layout of a backend's environments.

    Args:
        backend: owns the environments.
        copy: False: what comes back is read-only and valid until the next call.
        batch_size: how many environments a `recv` waits for; all by default.
        dead: "mask": an agent's flag is raised at its own end; "done_together": when its
            environment ends.

    Returns:
        A `FlatVectorEnv`, or with a `batch_size` smaller than all an `AsyncFlatVectorEnv`.

    Raises:
        ConfigError: agents have different spaces, or `dead` is something else.
    """
    some = batch_size is not None and batch_size < backend.spec.num_envs
    kind = AsyncFlatVectorEnv if some else FlatVectorEnv
    return kind(backend, copy=copy, batch_size=batch_size, dead=dead)


class FlatRows(Core):
    """What `FlatVectorEnv` and `AsyncFlatVectorEnv` have in common."""

    layout = "flat"

    def __init__(
        self, backend: Any, *, copy: bool = True, batch_size: int | None = None, dead: str = "mask"
    ) -> None:
        if dead not in ("mask", "done_together"):
            raise ConfigError(f"dead: expected 'mask' or 'done_together', got {dead!r}")
        spec: VecSpec = backend.spec
        self._rows = rows_of(spec)
        self._begin(backend, copy=copy, batch_size=batch_size)
        # Of one agent in a row the flag can't be raised before its environment ends.
        several = spec.kind not in ("aec", "gymnasium")
        self._together = Together(spec) if several and dead == "done_together" else None
        # Gymnasium's own wrapper tells what the only agent of an environment earned.
        self._earnings = None if spec.kind == "gymnasium" else Earnings(spec)
        self._spaces = VectorSpaces(spec)
        self.env_spaces = self._spaces.envs
        self.num_worlds, self.agents_per_world = spec.num_envs, self._rows.width
        self.num_envs = spec.num_envs * self._rows.width
        self.spec = spec.spec
        (
            self.single_observation_space, self.single_action_space,
            self.observation_space, self.action_space,
        ) = flat_spaces(spec, self._rows.width)  # fmt: skip
        self.closed = False
        self._masked = any(is_mask(x) for g in spec.groups for x in g.observation.leaves)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: environment i gets seed + i; a list gives each environment its own; None
                continues.
            options: for the environments; ``options["reset_mask"]``, (rows,) bool, resets only
                some, and must be equal in all rows of an environment. It is not changed.

        Returns:
            Observations (rows, …), and infos in Gymnasium's form.
        """
        return self._present_reset(self._reset(seed, options))

    def step(self, actions: Any) -> Result:
        """Step every environment.

        Args:
            actions: (rows, …) in the form of `action_space`; those of rows that are not live
                are ignored.

        Returns:
            Observations (rows, …), rewards (rows,) float64, terminations and truncations (rows,)
            bool, infos in Gymnasium's form.

        Raises:
            ActionError: of a wrong structure, shape or dtype.
            StateError: before the first reset, or after an error.
            Exception: whatever an environment raises.
        """
        return self._present(self._step(actions))

    def recv(self) -> Result:
        """The results of the `batch_size` environments that have been ready longest.

        Returns:
            As `step`, with the rows of `batch_size` environments in ascending order;
            ``infos["env_id"]``, (batch_size,) int64, and `env_ids` name them.
        """
        *found, infos = self._present(self._recv())
        infos["env_id"] = self.env_ids.copy()
        return (*found, infos)

    def seed_spaces(self, seed: int) -> None:
        """Seed every action and observation space, so that what they sample can be repeated."""
        for k, space in enumerate(
            (self.single_observation_space, self.single_action_space, self.observation_space,
             self.action_space)
        ):  # fmt: skip
            space.seed(seed + k)
        self._spaces.seed(seed)

    def sample_actions(self) -> Any:
        """Random legal actions, (rows, …); honours action masks in observations or infos."""
        frame = self._frame
        plain = frame is not None and frame.rows == self._count and not frame.side
        if plain and not self._masked and self._spec.env_spaces is None:
            return self.action_space.sample()
        return self._rows.pack(sample(self))

    def state_dict(self) -> dict[str, Any]:
        """As of every layout, and what `infos` and flags need to know of the episodes so far."""
        out = super().state_dict()
        if self._earnings is not None:
            out["earnings"] = self._earnings.state()
        if self._together is not None:
            out["together"] = self._together.state()
        return out

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """As of every layout; a state of another one begins the statistics anew."""
        shown = super().load_state_dict(state)
        for name, part in (("earnings", self._earnings), ("together", self._together)):
            if part is None:
                continue
            if name in state:
                part.load(state[name])
            else:
                part.begin(slice(None))
        return shown

    def torch(self) -> Any:
        """The same vector with CPU tensors in place of arrays, without a copy.

        Raises:
            MissingDependencyError: torch is not installed.
        """
        from .torch import TorchVectorEnv

        return TorchVectorEnv(self)

    # ---- what comes back

    def _present_reset(self, frame: Frame) -> tuple[Any, dict[str, Any]]:
        rows = self._rows
        rows.look(frame, self.env_ids)
        found = rows.observations(frame)
        if not (self.copy or rows.views):
            _freeze(found)
        return found, rows.infos(frame, self.env_ids, {})

    def _present(self, frame: Frame) -> Result:
        rows, ids = self._rows, self.env_ids
        rows.look(frame, ids)
        envs = None if ids is self._everyone else ids
        earned = {} if self._earnings is None else self._earnings.entries(frame, envs)
        if self._together is None:
            terminated, truncated = frame.terminated, frame.truncated
        else:
            terminated, truncated = self._together.flags(frame, envs)
        found = (
            rows.observations(frame),
            rows.column(frame.reward),
            rows.column(terminated),
            rows.column(truncated),
        )
        if not (self.copy or rows.views):
            _freeze(found)
        return (*found, rows.infos(frame, ids, earned))

    # ---- what goes in

    def _take(self, actions: Any, envs: Array | None) -> None:
        self._rows.take(self._backend.actions, actions, envs, self._live, self._turn)

    def _start(self, chosen: BoolArray | None) -> None:
        begun: Any = slice(None) if chosen is None else chosen
        if self._earnings is not None:
            self._earnings.begin(begun)
        if self._together is not None:
            self._together.begin(begun)

    def _checked_mask(self, mask: Any) -> BoolArray:
        rows, width = self.num_envs, self._rows.width
        array = np.asarray(mask)
        if array.dtype == np.bool_ and array.shape == (self._count,):
            return super()._checked_mask(array)
        if array.shape != (rows,) or array.dtype != np.bool_:
            raise ConfigError(
                f"{self._name}.reset: options['reset_mask'] must be bool of shape ({rows},), one "
                f"for each row, or ({self._count},), one for each environment, got {array.dtype} "
                f"of shape {array.shape}"
            )
        worlds = array.reshape(-1, width)
        mixed = np.flatnonzero(worlds.any(1) != worlds.all(1))
        if mixed.size:
            env = int(mixed[0])
            raise ConfigError(
                f"{self._name}.reset: options['reset_mask'] must be equal in all rows of an "
                f"environment, because its agents begin an episode together; environment {env} "
                f"(rows {env * width} to {env * width + width - 1}) has "
                f"{worlds[env].tolist()}"
            )
        return super()._checked_mask(worlds[:, 0])


class FlatVectorEnv(FlatRows, gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Environments as rows of a Gymnasium vector environment; see `seer.make_vec`.

    Args:
        backend: owns the environments.
        copy: False: what comes back is read-only and valid until the next call.
        batch_size: how many environments a `recv` waits for: all.
        dead: "mask": an agent's flag is raised at its own end; "done_together": when its
            environment ends.

    Attributes:
        num_envs: rows: `num_worlds` · `agents_per_world`.
        num_worlds: environments.
        agents_per_world: rows of each.
        single_observation_space, single_action_space: of a row.
        observation_space, action_space: of all rows, as Gymnasium batches them.
        metadata: of the first environment, with ``autoreset_mode``.
        env_spaces: env_spaces[i][agent] -> (observation space, action space).
        closed: whether it was closed.
    """

    closed = True  # until it is made: older Gymnasiums close what is thrown away half-made

    @property  # type: ignore[misc] # without a setter, as Gymnasium's SyncVectorEnv
    def np_random(self) -> Any:
        """The random stream of each environment; in another process a copy of it."""
        return self.get_attr("np_random")

    def close(self, timeout: float | None = None) -> None:  # type: ignore[override]
        """Close every environment once, and end the workers. May be called at any time, twice.

        Args:
            timeout: how long to wait for environments that are still stepping, s.
        """
        self.closed = True
        super().close(timeout)


class AsyncFlatVectorEnv(FlatRows):
    """Environments as rows, some of them at a time: `send` actions and `recv` results.

    It has what `FlatVectorEnv` has, but `step` refuses, and it is no Gymnasium vector environment:
    those return every row.
    """


def rows_of(spec: VecSpec) -> Rows:
    """How a vector's environments become rows."""
    if spec.kind == "aec":
        from .flat_turns import Turns

        return Turns(spec)
    return Rows(spec)


def _freeze(values: Any) -> None:
    """Make arrays read-only, in whatever they are nested."""
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    elif isinstance(values, (dict, tuple)):
        for value in values.values() if isinstance(values, dict) else values:
            _freeze(value)
