"""A model as a PettingZoo ``ParallelEnv``.

The data flow of a step: the dict of actions is packed into the engine's action column, the
engine steps, one copy is made of the observations, and the five dicts are zipped from views of
it. There is no work per agent in Python besides those dicts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pettingzoo

from .engine import Engine
from .errors import ClosedError, ConfigError, StateError
from .model import EventModel
from .packing import ActionPacker
from .spaces import AgentSpaces, space_of
from .types import Array, whole

__all__ = ["ParallelEnv"]

RENDER_MODES = ("human", "rgb_array")


class ParallelEnv(pettingzoo.ParallelEnv):  # type: ignore[type-arg]
    """One world of a model, for PettingZoo.

    Args:
        model: a `seer.EventModel`, or its class for the default parameters. It must declare
            agents, an action and an observation.
        horizon: steps after which an episode is truncated; None: it never is.
        render_mode: None, ``"rgb_array"`` (`render` returns a frame) or ``"human"`` (a window,
            drawn again at every step).
        strict_actions: raise on a Box action outside its bounds. Otherwise it is clipped, and
            counted in `clipped_actions`.
        pool: ``"auto"`` or a `seer.PoolConfig`.
        compiled: False runs the model as plain Python, for debugging.
        name: what `metadata` and error messages call this environment.
        renderer: called without arguments to make an object whose ``frame(env)`` gives the
            picture, uint8 (height, width, 3), and whose ``reset()`` forgets the past.
        end_info: called with this environment and an agent's index at the end of that agent's
            life; the dict it gives is the agent's last info.
        state_columns: the columns that `state` lists; by default every published one.

    Raises:
        ConfigError: an argument is not legal, or the model has no agents.

    Attributes:
        engine: the `seer.Engine` underneath; its columns may be read and written between steps.
        model: the model.

    Agents never pause and never come back. An agent that dies gets its last reward, flags and
    observation in the step of its death, and is gone from `agents` after it.

    It can be copied and pickled; the copy goes on where the original is.
    """

    metadata: dict[str, Any]

    def __init__(
        self,
        model: EventModel | type[EventModel],
        horizon: int | None = 400,
        render_mode: str | None = None,
        strict_actions: bool = False,
        pool: Any = "auto",
        compiled: bool = True,
        *,
        name: str | None = None,
        renderer: Callable[[], Any] | None = None,
        end_info: Callable[[Any, int], dict[str, Any]] | None = None,
        state_columns: Sequence[str] | None = None,
    ) -> None:
        self._options = {
            "horizon": horizon, "render_mode": render_mode, "strict_actions": strict_actions,
            "pool": pool, "compiled": compiled, "name": name, "renderer": renderer,
            "end_info": end_info, "state_columns": state_columns,
        }  # fmt: skip
        if isinstance(model, type) and issubclass(model, EventModel):
            model = model()
        if not isinstance(model, EventModel):
            raise ConfigError(
                f"ParallelEnv: expected a seer.EventModel, got {type(model).__name__}"
            )
        self.model = model
        self.name = name or model.spec.name
        self.horizon = self._steps("horizon", horizon)
        self._check_render_mode(render_mode, renderer)
        spec = model.spec
        for role in ("action", "observation"):
            if spec.agents is None or spec.role(role) is None:
                raise ConfigError(
                    f"ParallelEnv: {spec.name} declares no {role}; an environment needs agents, "
                    "seer.action and seer.observation"
                )
        assert spec.agents is not None
        if spec.agents.count == 0:
            raise ConfigError(f"ParallelEnv: {spec.name} has no agents, expected at least 1")
        self.render_mode = render_mode
        self.metadata = {
            "name": self.name,
            "render_modes": list(RENDER_MODES) if renderer else [],
            "is_parallelizable": True,
            "render_fps": max(1, round(1.0 / (spec.step * spec.tick))),
        }
        self.possible_agents: list[str] = [
            f"{spec.agents.name}_{i}" for i in range(spec.agents.count)
        ]
        self.agents: list[str] = []
        self._one_observation_space = space_of(model, "observation")
        self._one_action_space = space_of(model, "action")
        self.observation_spaces = AgentSpaces(self.possible_agents, self._one_observation_space)
        self.action_spaces = AgentSpaces(self.possible_agents, self._one_action_space)
        self._end_info = end_info
        self._renderer = renderer() if renderer else None
        self._window: Any = None
        self._state_columns = self._checked_columns(state_columns)
        self.engine = Engine(
            model, worlds=1, pool=pool, compiled=compiled, strict_actions=strict_actions
        )
        self._packer = ActionPacker(
            self.name, self.possible_agents, self._one_action_space, self.engine.action[0]
        )
        self._clipped_before = 0
        # Views of the columns; a model may declare neither.
        count = spec.agents.count
        self._reward = self.engine.reward[0] if spec.role("reward") else np.zeros(count)
        self._terminated = (
            self.engine.terminated[0] if spec.role("terminated") else np.zeros(count, np.bool_)
        )
        self._closed = False
        self._started = False
        self._steps_done = 0
        self._limit = self.horizon
        self._rows: Array | None = None  # indices of `agents`; None: all of them
        self._false: dict[str, bool] = {}

    # ---- an episode

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Any]]]:
        """Begin an episode.

        Args:
            seed: not negative. None goes on with the next episode of the last seed, or draws
                one from the operating system at the first reset (see ``engine.seeds``).
            options: ``{"horizon": steps}`` sets this episode's horizon. Unknown keys warn.

        Returns:
            Observations and infos by agent.

        Raises:
            ClosedError: after `close`.
            ConfigError: a seed or an option that is not legal.
        """
        if self._closed:
            raise ClosedError(f"{self.name}: reset after close; make a new environment")
        if seed is not None:
            seed = self._checked_seed(seed)
        self._limit = self._checked_options(options)
        self._started = False
        self.engine.reset(seed=seed)
        self._started = True
        self._steps_done = 0
        self._clipped_before = self.engine.clipped
        self.agents = list(self.possible_agents)
        self._rows = None
        self._false = dict.fromkeys(self.agents, False)
        alive = self.engine.alive[0]
        if not alive.all():
            self._keep(alive != 0)
        if self._renderer is not None:
            self._renderer.reset()
        if self.render_mode == "human":
            self.render()
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, Array],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Move every live agent once.

        Args:
            actions: one action for each agent in `agents`, and for no other.

        Returns:
            Observations, rewards, terminations, truncations and infos, by agent, of those that
            were alive before this step. The arrays are the caller's to keep.

        Raises:
            StateError: before the first reset, or after the end of an episode.
            ClosedError: after `close`.
            ActionError: an action is missing, surplus, not finite, or of the wrong shape, dtype
                or (for discrete spaces, or with ``strict_actions``) range. Nothing has moved.
            UnknownAgentError: an action for an agent that does not exist.
            FaultError: the model did something illegal; only `reset` and `close` help.
        """
        agents = self.agents
        if not agents or not self._started:
            self._refuse_step()
        self._packer.pack(actions, agents, self._rows)
        self.engine.step()
        self._steps_done += 1

        rows = self._rows
        rewards = self._reward
        over = self._terminated | (self.engine.alive[0] == 0)
        if rows is not None:
            rewards, over = rewards[rows], over[rows]
        observations = self._observations()
        terminations = self._false.copy()
        truncations = self._false.copy()
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
        ended = over.any()
        if ended:
            for k in np.flatnonzero(over).tolist():
                terminations[agents[k]] = True
                if self._end_info is not None:
                    infos[agents[k]] = self._end_info(self, k if rows is None else int(rows[k]))
        if self._limit is not None and self._steps_done >= self._limit:
            truncations = {agent: not dead for agent, dead in terminations.items()}
            self.agents = []
        elif ended:
            self._keep(over == 0)
        if self.render_mode == "human":
            self.render()
        return (
            observations, dict(zip(agents, rewards.tolist(), strict=True)),
            terminations, truncations, infos,
        )  # fmt: skip

    def _observations(self) -> dict[str, Array]:
        block = self.engine.observation[0]
        block = block.copy() if self._rows is None else block[self._rows]
        return dict(zip(self.agents, block, strict=True))

    def _keep(self, stay: Array) -> None:
        """Only those of `agents` where `stay` holds are left."""
        rows = np.flatnonzero(stay) if self._rows is None else self._rows[stay]
        self._rows = rows
        self.agents = [self.possible_agents[k] for k in rows.tolist()]
        self._false = dict.fromkeys(self.agents, False)

    def _refuse_step(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.name}: step after close; make a new environment")
        if not self._started:
            raise StateError(f"{self.name}: step before reset; call reset first")
        raise StateError(
            f"{self.name}: the episode ended after {self._steps_done} steps; call reset before "
            "the next step"
        )

    # ---- spaces and state

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's action space, always the same object."""
        return self.action_spaces[agent]

    @property
    def clipped_actions(self) -> int:
        """How many actions were outside their box and clipped, since the last reset."""
        return self.engine.clipped - self._clipped_before

    @property
    def state_space(self) -> Any:
        """The space of `state`."""
        from gymnasium import spaces

        size = sum(self.engine.columns[c][0].size for c in self._state_columns)
        return spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def state(self) -> Array:
        """The whole world for a central critic: (value,) float32, column after column.

        Raises:
            StateError: before the first reset.
            ClosedError: after `close`.
        """
        if self._closed:
            raise ClosedError(f"{self.name}: state after close")
        if not self._started:
            raise StateError(f"{self.name}: state before reset; call reset first")
        columns = [self.engine.columns[c][0] for c in self._state_columns]
        return np.concatenate([np.asarray(c, np.float32).reshape(-1) for c in columns])

    # ---- pictures

    def render(self) -> Array | None:
        """A frame of the present state.

        Returns:
            uint8 (height, width, 3) with ``render_mode="rgb_array"``. None with ``"human"``,
            which shows it in a window, and (with a warning) without a mode.
        """
        if self._closed:
            raise ClosedError(f"{self.name}: render after close")
        if self.render_mode is None:
            warnings.warn(
                f'{self.name}: render needs render_mode="rgb_array" or "human" when the '
                "environment is made",
                stacklevel=2,
            )
            return None
        if not self._started:
            raise StateError(f"{self.name}: render before reset; call reset first")
        assert self._renderer is not None  # checked when the mode was chosen
        frame: Array = self._renderer.frame(self)
        if self.render_mode == "rgb_array":
            return frame
        if self._window is None:
            from .window import Window

            self._window = Window(self.name)
        self._window.show(frame)
        return None

    def close(self) -> None:
        """Free the engine and the window. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._started = False
        self.agents = []
        if self._window is not None:
            self._window.close()
        self.engine.close()

    def __reduce__(self) -> Any:
        """Copies and pickles go on where this one is; a window is not copied."""
        state = None
        if self._started:
            state = {
                "engine": self.engine.state_dict(), "steps": self._steps_done,
                "limit": self._limit, "rows": self._rows, "ended": not self.agents,
                "clipped": self.clipped_actions,
            }  # fmt: skip
        spaces = (self.action_spaces._made, self.observation_spaces._made)
        return _remade, (type(self), self.model, self._options, self._closed, spaces, state)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self.agents)} alive"
        return (
            f"<{self.name}: {len(self.possible_agents)} agents, {state}, "
            f"horizon {self.horizon}, {self.model!r}>"
        )

    # ---- checks

    def _steps(self, what: str, value: Any) -> int | None:
        if value is None:
            return None
        steps = whole(value)
        if steps is None or steps < 1:
            raise ConfigError(
                f"{self.name}: {what} must be a whole number of steps from 1, or None, "
                f"got {value!r}"
            )
        return steps

    def _check_render_mode(self, mode: str | None, renderer: Any) -> None:
        if mode is None:
            return
        if not isinstance(mode, str) or mode not in RENDER_MODES:
            raise ConfigError(
                f"{self.name}: render_mode must be None, 'human' or 'rgb_array', got {mode!r}"
            )
        if renderer is None:
            raise ConfigError(f"{self.name}: render_mode={mode!r}, but there is no renderer")

    def _checked_columns(self, names: Sequence[str] | None) -> list[str]:
        columns = {c.name: c for c in self.model.spec.columns}
        if names is None:
            return [c.name for c in columns.values() if c.published]
        for name in names:
            if name not in columns:
                raise ConfigError(f"{self.name}: state_columns names {name!r}, which is no column")
        return list(names)

    def _checked_seed(self, seed: Any) -> int:
        number = whole(seed)
        if number is None or not 0 <= number < 2**63:
            raise ConfigError(
                f"{self.name}: seed must be a whole number from 0 to 2**63 - 1, got {seed!r}"
            )
        return number

    def _checked_options(self, options: Any) -> int | None:
        """This episode's horizon."""
        if options is None:
            return self.horizon
        if not isinstance(options, Mapping):
            raise ConfigError(f"{self.name}: options must be a dict, got {type(options).__name__}")
        unknown = [key for key in options if key != "horizon"]
        if unknown:
            warnings.warn(
                f"{self.name}: unknown reset options {unknown!r} do nothing (known: 'horizon')",
                stacklevel=3,
            )
        if "horizon" in options:
            return self._steps('options["horizon"]', options["horizon"])
        return self.horizon


def _remade(
    cls: type[ParallelEnv], model: EventModel, options: dict[str, Any], closed: bool,
    made_spaces: Any, state: dict[str, Any] | None,
) -> ParallelEnv:  # fmt: skip
    """An environment out of a pickle or a copy."""
    env = cls(model, **options)
    env.action_spaces._made.update(made_spaces[0])
    env.observation_spaces._made.update(made_spaces[1])
    if closed:
        env.close()
    if state is not None:
        env.engine.load_state_dict(state["engine"])
        env._started = True
        env._steps_done, env._limit = state["steps"], state["limit"]
        env._clipped_before = env.engine.clipped - state["clipped"]
        env.agents = [] if state["ended"] else list(env.possible_agents)
        env._rows = None
        env._false = dict.fromkeys(env.agents, False)
        if state["rows"] is not None and env.agents:
            stay = np.zeros(len(env.agents), np.bool_)
            stay[state["rows"]] = True
            env._keep(stay)
        if env._renderer is not None:
            env._renderer.reset()
    return env
