"""One world of many, looked at as if it were an environment of its own.

`vec.call`, `vec.get_attr` and renderers work on these; nothing here is on the way of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Totals
from ..errors import ConfigError
from ..types import Array, FloatArray, whole

if TYPE_CHECKING:
    from ..engine import Engine
    from .native_episodes import Episodes

__all__ = ["NEVER", "EngineView", "World", "limit_of"]

NEVER = int(np.iinfo(np.int64).max)
"""The horizon of what is never truncated."""

_OF_AGENTS = ("action", "observation", "reward", "terminated", "alive")


class _OneWorld(Mapping[str, Array]):
    """An engine's arrays by name, of one world."""

    def __init__(self, arrays: Mapping[str, Array], world: int) -> None:
        self._arrays, self._rows = arrays, slice(world, world + 1)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name][self._rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class EngineView:
    """World number `world` of an engine, as an engine with one world.

    Args:
        engine: with all worlds.
        world: which one.

    Attributes:
        columns, seen, totals: as the engine's, with one world in them; columns may be written.
        model, spec: the engine's.
    """

    worlds = 1

    def __init__(self, engine: Engine, world: int) -> None:
        self._engine, self._world = engine, world
        self.model, self.spec = engine.model, engine.spec
        self.columns: Mapping[str, Array] = _OneWorld(engine.columns, world)
        self.seen: Mapping[str, Array] = _OneWorld(engine.seen, world)

    @property
    def totals(self) -> Mapping[str, FloatArray]:
        """Name -> (1,) float64, each reduction over the world's columns as they are now."""
        mine = slice(self._world, self._world + 1)
        return Totals(self.spec, [column[mine] for column in self._engine._latest])

    def __getattr__(self, name: str) -> Any:
        if name in _OF_AGENTS:
            return getattr(self._engine, name)[self._world : self._world + 1]
        raise AttributeError(
            f"a world's engine has no {name!r}: it can be read, and its columns written; it has "
            f"columns, seen, totals, {', '.join(_OF_AGENTS)}, seeds, episodes, steps() and time()"
        )

    @property
    def seeds(self) -> Array:
        """(1,) uint64, the world's seed."""
        return self._engine.seeds[self._world : self._world + 1]

    @property
    def episodes(self) -> Array:
        """(1,) uint64, episodes begun since the world was seeded, the first being 0."""
        return self._engine.episodes[self._world : self._world + 1]

    def steps(self, world: int = 0) -> int:
        """Steps since the world's reset."""
        return self._engine.steps(self._world)

    def time(self, world: int = 0) -> float:
        """Simulated time since the world's reset, s."""
        return self._engine.time(self._world)

    def __repr__(self) -> str:
        return f"<world {self._world} of {self._engine!r}>"


class World:
    """A world, with what a single environment would have to be asked.

    Args:
        worlds: all of them.
        index: its number.

    Attributes:
        engine: its `EngineView`.
        model: the model of all worlds.
        index: its number.
    """

    def __init__(self, worlds: Episodes, index: int) -> None:
        self._worlds, self.index = worlds, index
        self.engine = EngineView(worlds.engine, index)
        self.model = worlds.engine.model
        self._renderer: Any = None
        self._window: Any = None

    @property
    def name(self) -> str:
        """What messages call the environment."""
        return self._worlds.spec.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """As of a single environment."""
        return self._worlds.spec.metadata

    @property
    def render_mode(self) -> str | None:
        """None, "rgb_array" or "human"."""
        return self._worlds.spec.render_mode

    @property
    def unwrapped(self) -> World:
        """The world itself."""
        return self

    @property
    def possible_agents(self) -> list[str]:
        """All agents."""
        return list(self._worlds.spec.agents)

    @property
    def agents(self) -> list[str]:
        """Who is live."""
        names = self._worlds.spec.agents
        return [names[slot] for slot in np.flatnonzero(self._worlds.live[self.index]).tolist()]

    @property
    def horizon(self) -> int | None:
        """Steps after which the next episodes are truncated; None: never. May be set."""
        limit = int(self._worlds.horizon[self.index])
        return None if limit == NEVER else limit

    @horizon.setter
    def horizon(self, steps: int | None) -> None:
        self._worlds.horizon[self.index] = limit_of(f"{self.name}: horizon", steps)

    @property
    def np_random_seed(self) -> int:
        """The world's seed."""
        return int(self.engine.seeds[0])

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space."""
        return self._space(agent, 0)

    def action_space(self, agent: str) -> Any:
        """The agent's action space."""
        return self._space(agent, 1)

    def _space(self, agent: str, which: int) -> Any:
        spec = self._worlds.spec
        if agent not in spec.slot:
            from .spaces import unknown_agent

            raise unknown_agent(agent, spec.slot, f"{spec.name}: ")
        group = spec.groups[spec.where[spec.slot[agent]][0]]
        return group.action_space if which else group.observation_space

    def state(self) -> Array:
        """(value,) float32, the whole world for a central critic, column after column."""
        mine: Array = self._worlds.state([self.index])[0]
        return mine

    def render(self) -> Any:
        """A frame of the present state: uint8 (height, width, 3); None in a window."""
        if self._renderer is None:
            self._renderer = self._worlds.setup.renderer()
        frame = self._renderer.frame(self)
        if self.render_mode == "rgb_array":
            return frame
        if self._window is None:
            from ..window import Window

            self._window = Window(self.name)
        self._window.show(frame)
        return None

    def begin(self) -> None:
        """Forget what was drawn of the last episode."""
        if self._renderer is not None:
            self._renderer.reset()

    def close(self) -> None:
        """Close the window."""
        if self._window is not None:
            self._window.close()

    def __repr__(self) -> str:
        return f"<world {self.index} of {self.name}: {len(self.agents)} live>"


def limit_of(what: str, steps: Any) -> int:
    """A horizon as a number.

    Raises:
        ConfigError: it is neither None nor a number of steps.
    """
    if steps is None:
        return NEVER
    number = whole(steps)
    if number is None or not 1 <= number < NEVER:
        raise ConfigError(f"{what} must be a whole number of steps from 1, or None, got {steps!r}")
    return number
