"""Many copies of an environment as a vector environment of Stable-Baselines3.

    >>> venv = seer.trainers.sb3.make(simple_spread_v3, 32)
    >>> model = PPO("MlpPolicy", venv).learn(2_000_000)

Every agent of every environment is a row, and one policy acts in all of them. Rows wait where an
agent has ended before its environment; Stable-Baselines3 has no loss mask, so it trains on them,
too. They show a fixed observation and reward 0, and cannot reach the values of real steps,
because they come after a done; but they are a share of every batch. `Sb3VecEnv.dead_share` tells
how large it is, and a warning is given when it is known.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, MissingDependencyError, StateError
from ..types import Array, BoolArray
from ..vector import make_vec
from ..vector.inside import attribute, is_wrapped
from .rows import after, check, copied, final_info, put, row_info, row_of, spread_infos

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise MissingDependencyError(
        'seer.trainers.sb3 needs Stable-Baselines3: pip install "seer-marl[sb3]"',
        package="stable_baselines3", extra="sb3",
    ) from error  # fmt: skip

__all__ = ["Sb3VecEnv", "make"]

Indices = int | Iterable[int] | None
_OURS = {"layout": "flat", "autoreset": "same_step"}
_TRUNCATED, _LAST = "TimeLimit.truncated", "terminal_observation"


def make(env: Any, num_envs: int | None = None, **options: Any) -> Sb3VecEnv:
    """Many copies of an environment as rows for Stable-Baselines3.

    Args:
        env: whatever `seer.make_vec` takes.
        num_envs: how many environments; each has a row for every agent.
        **options: of `seer.make_vec`, and keyword arguments of the environment. The layout is
            flat and environments are reset in the step that ends them, because Stable-Baselines3
            knows no other way.

    Raises:
        ConfigError: an option is illegal, or agents or spaces do not fit into rows.
        Exception: whatever `seer.make_vec` raises.
    """
    for name in ("layout", "autoreset", "autoreset_mode", "batch_size"):
        if name in options and not _fits(name, options.pop(name), num_envs):
            raise ConfigError(
                f"seer.trainers.sb3.make: leave out {name!r}: Stable-Baselines3 steps all rows "
                'together, with layout="flat" and autoreset="same_step"'
            )
    vec = make_vec(env, num_envs, layout="flat", autoreset="same_step", **options)
    try:
        return Sb3VecEnv(vec)
    except BaseException:
        vec.close()
        raise


def _fits(name: str, value: Any, num_envs: int | None) -> bool:
    if value is None:
        return True
    if name == "batch_size":
        return bool(value == num_envs)
    text = str(getattr(value, "value", value)).replace("_", "").lower()
    return text == ("flat" if name == "layout" else "samestep")


class Sb3VecEnv(VecEnv):
    """The rows of a flat vector, as Stable-Baselines3 steps them.

    Row ``env · A + slot`` is an agent of an environment; `num_envs` counts rows.

    - A row is done once, in its agent's last step. ``infos[row]`` then has
      ``"terminal_observation"`` (the agent's last), ``"TimeLimit.truncated"`` and ``"episode"``
      (``r``, ``l``, ``t`` of the agent's life; dead steps don't count), and the observation
      returned is what comes after: the next episode's, or filler while the agent's environment
      goes on. Until then the row returns filler, reward 0 and not done, and its action is ignored.
    - ``infos[row]["live"]`` says whether the row's next action counts.
    - Of turn-based environments a row is the agent that is to act, ``infos[row]["agent"]``; at the
      end of an episode the one that made the last move, ``infos[row]["final_agent"]``.
    - `reset_infos` has the infos of the last reset of each row, automatic or not.
    - Methods with `indices` take rows. `env_method` calls an environment once and `set_attr` sets
      it once, however many of its rows are named; each row gets the same result.
    - `env_is_wrapped` is True for Stable-Baselines3's ``Monitor``, because the entries it would
      make are there; so ``evaluate_policy`` and ``EvalCallback`` count real episodes.
      ``VecMonitor`` works, too, but replaces the entries by its own, which count dead steps.

    Args:
        vec: of `seer.make_vec`, with ``layout="flat", autoreset="same_step"``; possibly in
            Gymnasium's wrappers.

    Attributes:
        vec: what is stepped.
        live: (rows,) bool, whose next action counts.
        dead_share: of all rows so far, those whose agent had ended, 0 to 1.
        num_worlds: environments.
        agents_per_world: rows of each.

    Raises:
        ConfigError: another layout or reset mode, or spaces that Stable-Baselines3 can't hold.
    """

    def __init__(self, vec: Any) -> None:
        core = getattr(vec, "unwrapped", vec)
        check(core)
        self.vec, self._core = vec, core
        self.num_worlds, self.agents_per_world = core.num_worlds, core.agents_per_world
        self.spec = core.spec if hasattr(core.spec, "id") else None
        rows = core.num_envs
        self._pending: Any = None
        self.live: BoolArray = np.zeros(rows, np.bool_)
        self._return: Array = np.zeros(rows)
        self._length: Array = np.zeros(rows, np.int64)
        self._start: Array = np.zeros(rows)
        self._steps = self._dead = self._ended = 0
        self._warned = False
        self._turns = core._spec.kind == "aec"
        self._filler = after(core)
        super().__init__(rows, vec.single_observation_space, vec.single_action_space)

    # ---- the loop

    def reset(self) -> Any:
        """Begin new episodes everywhere, with the seeds and options set before.

        Returns:
            Observations (rows, …) in the dtype of their space, or a dict of such.
        """
        width, every = self.agents_per_world, self._options
        seeds = list(self._seeds[::width])
        self._pending = None
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for mask, options in self._by_options(every):
            if mask is not None:
                options = {**options, "reset_mask": np.repeat(mask, width)}
            observations, told = self.vec.reset(seed=seeds, options=options or None)
            for row in (
                range(self.num_envs) if mask is None else np.flatnonzero(np.repeat(mask, width))
            ):
                infos[row] = row_info(told, int(row))
        self.reset_infos = infos
        self._reset_seeds()
        self._reset_options()
        self._note_live()
        self._return[:], self._length[:], self._start[:] = 0.0, 0, time.perf_counter()
        return self._owned(observations)

    def step_async(self, actions: Any) -> None:
        """Take the actions (rows, …) of a step; the caller may change the array afterwards.

        Raises:
            StateError: a step is pending already.
        """
        if self._pending is not None:
            raise StateError("step_async: a step is pending; call step_wait first")
        self._pending = np.array(actions)

    def step_wait(self) -> tuple[Any, Array, BoolArray, list[dict[str, Any]]]:
        """Make the step.

        Returns:
            Observations (rows, …), rewards (rows,) float32, dones (rows,) bool, and a dict of
            infos for each row.

        Raises:
            StateError: there was no step_async.
            Exception: whatever an environment raises.
        """
        if self._pending is None:
            raise StateError("step_wait: no step is pending; call step_async first")
        actions, self._pending = self._pending, None
        acted = self.live
        observations, rewards, terminated, truncated, told = self.vec.step(actions)
        dones: BoolArray = terminated | truncated
        self._return += rewards
        self._length += acted
        self._steps += self.num_envs
        self._note_live()
        infos = self._plain_infos()
        over = np.repeat(self._core.episode_over, self.agents_per_world)
        self._dead += self.num_envs - int(np.count_nonzero(acted))
        if not dones.any() and not over.any():
            spread_infos(infos, told)
            return self._owned(observations), rewards.astype(np.float32), dones, infos
        observations = self._ends(observations, terminated, truncated, over, told, infos)
        return observations, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Close every environment. May be called at any time, twice."""
        self.vec.close()

    # ---- where somebody ends

    def _ends(
        self, observations: Any, terminated: BoolArray, truncated: BoolArray, over: BoolArray,
        told: dict[str, Any], infos: list[dict[str, Any]],
    ) -> Any:  # fmt: skip
        """Fill in the infos of rows that are done; returns what is observed afterwards."""
        last = told.get("final_obs")
        dones = terminated | truncated
        observations = copied(observations)
        spread_infos(infos, told, ~over)
        now = time.perf_counter()
        for row in np.flatnonzero(over).tolist():
            infos[row].update(final_info(told, row))
            self.reset_infos[row] = began = row_info(told, row)
            if self._turns and "others" in began:  # what the last move meant for others
                infos[row]["others"] = began.pop("others")
        for row in np.flatnonzero(dones).tolist():
            info = infos[row]
            shown = last[row] if over[row] and last is not None else row_of(observations, row)
            info[_LAST] = self._filler_row() if shown is None else shown
            info[_TRUNCATED] = bool(truncated[row] and not terminated[row])
            earned = self._return[row], self._length[row], now - self._start[row]
            if self._turns and "episode" in told:  # of the agent that made the last move
                earned = tuple(told["episode"][key][row] for key in "rlt")
            r, length, seconds = earned
            info.setdefault("episode", {
                "r": round(float(r), 6), "l": int(length), "t": round(float(seconds), 6),
            })  # fmt: skip
            if not over[row]:
                put(observations, row, self._filler)
        fresh = over | dones
        self._return[fresh], self._length[fresh], self._start[fresh] = 0.0, 0, now
        self._ended += int(np.count_nonzero(self._core.episode_over))
        self._warn()
        return observations

    def _filler_row(self) -> Any:
        return copied(self._filler)

    @property
    def dead_share(self) -> float:
        """Of all rows so far, those whose agent had ended, 0 to 1."""
        return self._dead / self._steps if self._steps else 0.0

    def _warn(self) -> None:
        # A share means something once as many episodes have ended as there are environments.
        if self._warned or self._ended < self.num_worlds or self.dead_share < 0.01:
            return
        self._warned = True
        warnings.warn(
            f"{self.dead_share:.0%} of the rows so far belong to agents that had ended before "
            "their environment. Stable-Baselines3 has no loss mask and trains on them; they are "
            "marked infos[row]['live'] = False. A trainer with a mask (examples/ppo_stacked.py) "
            "leaves them out",
            stacklevel=5,
        )

    # ---- rows and environments

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset: environment i gets seed + i.

        Args:
            seed: None draws one.

        Returns:
            The seed of each row's environment.
        """
        if seed is None:
            # From NumPy's global generator, as Stable-Baselines3 does: its seed decides.
            seed = int(np.random.randint(0, 2**32 - 1, dtype=np.uint32))  # noqa: NPY002
        width = self.agents_per_world
        self._seeds = [seed + row // width for row in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: Any = None) -> None:
        """Options of the next reset.

        Args:
            options: a dict for all, or a list with one for each row, equal in all rows of an
                environment.

        Raises:
            ConfigError: a list of another length, or rows of an environment that differ.
        """
        super().set_options(options)
        width, every = self.agents_per_world, self._options
        if len(every) != self.num_envs:
            raise ConfigError(
                f"set_options: expected a dict or {self.num_envs} of them, one for each row, got "
                f"{len(every)}"
            )
        for row, one in enumerate(every):
            first = row - row % width
            if one != every[first]:
                self._reset_options()
                raise ConfigError(
                    f"set_options: rows {first} and {row} are agents of one environment, so "
                    f"their options must be equal, got {every[first]} and {one}"
                )

    def _by_options(self, every: list[Any]) -> list[tuple[BoolArray | None, dict[str, Any]]]:
        """Which environments are reset with which options; None: all."""
        each = [options or {} for options in every[:: self.agents_per_world]]
        if all(options == each[0] for options in each):
            return [(None, each[0])]
        kinds: list[dict[str, Any]] = []
        for options in each:
            if options not in kinds:
                kinds.append(options)
        return [(np.array([options == kind for options in each]), kind) for kind in kinds]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of the environment of each row, as it is; methods are not called.

        Raises:
            AttributeError: an environment does not have it.
        """
        rows = self._checked(indices)
        if attr_name == "render_mode":
            return [self._core.render_mode] * len(rows)
        if self._core._spec.kind == "native":
            return self._of_rows(rows, attr_name)
        return self._of_rows(rows, attribute, attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute in the environments of rows, once in each."""
        envs = self._environments(self._checked(indices))
        self._core.set_attr(attr_name, [value] * len(envs), envs=envs)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method once in the environment of each row, and give its result to each."""
        return self._of_rows(self._checked(indices), method_name, *method_args, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Whether the environment of each row is in a wrapper of a class."""
        rows = self._checked(indices)
        if (wrapper_class.__module__, wrapper_class.__name__) == _MONITOR:
            return [True] * len(rows)
        if self._core._spec.kind == "native":
            return [False] * len(rows)
        return self._of_rows(rows, is_wrapped, wrapper_class)

    def get_images(self) -> Sequence[Any]:
        """A picture of each environment: `num_worlds`, not one for each row."""
        pictures = self._core.render()
        return [None] * self.num_worlds if pictures is None else list(pictures)

    def _of_rows(self, rows: list[int], what: Any, *args: Any, **kwargs: Any) -> list[Any]:
        envs = self._environments(rows)
        found = dict(zip(envs, self._core.call(what, *args, envs=envs, **kwargs), strict=True))
        return [found[row // self.agents_per_world] for row in rows]

    def _environments(self, rows: list[int]) -> list[int]:
        return sorted({row // self.agents_per_world for row in rows})

    def _checked(self, indices: Indices) -> list[int]:
        rows = [int(row) for row in self._get_indices(indices)]
        for row in rows:
            if not -self.num_envs <= row < self.num_envs:
                raise ConfigError(
                    f"expected indices of rows from 0 to {self.num_envs - 1}, got {row}"
                )
        return [row % self.num_envs for row in rows]

    def _note_live(self) -> None:
        if self._turns:  # a row is whoever acts
            self.live = np.array(self._core.turn) >= 0
        else:
            self.live = np.array(self._core.live).reshape(-1)

    def _plain_infos(self) -> list[dict[str, Any]]:
        return [{_TRUNCATED: False, "live": live} for live in self.live.tolist()]

    def _owned(self, observations: Any) -> Any:
        return observations if self._core.copy else copied(observations)


_MONITOR = ("stable_baselines3.common.monitor", "Monitor")
