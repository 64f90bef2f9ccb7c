"""A model as a single Gymnasium environment with one mind, and as Gymnasium's vector.

>>> env = gymnasium.make("seer/UavSwarm-v0", drones=8)
>>> vec = gymnasium.make_vec("seer/UavSwarm-v0", num_envs=4, drones=8)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from .errors import ActionError, ClosedError, StateError
from .types import Array
from .vector.frames import Frame
from .vector.native import Native

__all__ = ["CentralEnv", "flat_vector"]


class CentralEnv(gymnasium.Env[Array, Array]):
    """One world whose agents are moved by one policy.

    Args:
        env_id: as `seer.make` takes it.
        render_mode: None, "rgb_array" or "human".
        **kwargs: for `seer.make`: parameters of the model, ``horizon``, ``strict_actions``,
            ``pool``, …

    Attributes:
        observation_space: of all A agents: (A, …); filler where an agent is dead.
        action_space: of all A agents: (A, …), from choices of each a ``MultiDiscrete``. What the
            dead are given is ignored.
        agents: their names, in order.
        engine: the `seer.Engine` underneath.

    The reward is the mean over all agents, the dead included with 0. ``terminated`` is True when
    every agent has terminated, ``truncated`` when the horizon cuts off who is left. Infos have
    "live", (A,) bool, who is; "rewards", (A,) float64; and the info of each agent that has one,
    by its name.

    Raises:
        UnknownIdError: no environment has this id.
        ConfigError: a parameter is unknown or out of range.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 10}

    def __init__(
        self, env_id: Any = "uav_swarm_v0", render_mode: str | None = None, **kwargs: Any
    ) -> None:
        self._native = Native(
            env_id, 1, mode="disabled", render_mode=render_mode, groups="all", kwargs=kwargs
        )
        spec = self._native.spec
        self.metadata = dict(spec.metadata)
        self.render_mode = spec.render_mode
        self.engine, self.model = self._native.engine, self._native.engine.model
        self.agents = list(spec.agents)
        group = spec.groups[0]
        self.observation_space = batch_space(group.observation_space, len(self.agents))
        self.action_space = batch_space(group.action_space, len(self.agents))
        self._leaf = group.action.leaves[0]
        self._state = "new"  # then going, over, failed, closed

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: not negative; None goes on with the next episode of the last seed.
            options: ``{"horizon": steps}`` sets this episode's horizon. Unknown keys warn.

        Returns:
            Observation (A, …) and info.
        """
        if self._state == "closed":
            raise ClosedError(f"{self._name}: reset after close; make a new environment")
        self._native.check_reset(None, [seed], [options])
        super().reset(seed=seed)
        self._state = "failed"
        frame = self._native.reset(None, [seed], [options])
        self._state = "going"
        return frame.obs[0][0][0], self._info(frame)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move every live agent once.

        Args:
            action: (A, …) in the form of `action_space`.

        Returns:
            Observation (A, …), reward, terminated, truncated, info.

        Raises:
            ActionError: of a wrong shape or dtype, not finite, or out of range; nothing has moved.
            StateError: before the first reset, or after the end of an episode.
            FaultError: the model did something illegal; only `reset` and `close` help.
        """
        if self._state != "going":
            self._refuse()
        self._take(action)
        self._native.check()
        self._state = "failed"
        frame = self._native.step()
        over, truncated = bool(frame.over[0]), bool(frame.truncated[0].any())
        self._state = "over" if over else "going"
        return (
            frame.obs[0][0][0], float(frame.reward[0].mean()), over and not truncated, truncated,
            self._info(frame),
        )  # fmt: skip

    def render(self) -> Any:
        """A frame of the present state, uint8 (height, width, 3); None in a window."""
        if self._state in ("new", "closed"):
            self._refuse()
        return None if self.render_mode is None else self._native.render([0])[0]

    def state(self) -> Array:
        """(value,) float32, the whole world, column after column."""
        mine: Array = self._native.state()[0]
        return mine

    @property
    def np_random_seed(self) -> int:
        """The seed of the world, also where none was given."""
        return self._native.np_random_seed[0]

    def close(self) -> None:
        """Free the engine and the window. May be called twice."""
        self._state = "closed"
        self._native.close()

    def __repr__(self) -> str:
        return f"<{self._name}: {len(self.agents)} agents of one mind, {self.model!r}>"

    @property
    def _name(self) -> str:
        return self._native.spec.name

    def _info(self, frame: Frame) -> dict[str, Any]:
        told = frame.side.infos.get(0, {})
        return {"live": frame.live[0], "rewards": frame.reward[0], **told}

    def _take(self, action: Any) -> None:
        into = self._native.actions.leaves[0][0][0]
        try:
            array = np.asarray(action)
        except Exception as error:  # whatever a tensor of another library raises
            raise ActionError(f"{self._name}: the action is no array: {error}") from None
        if array.shape != into.shape:
            raise ActionError(
                f"{self._name}: expected an action of shape {into.shape}, one for each of "
                f"{len(self.agents)} agents, got {array.shape}"
            )
        if not np.can_cast(array.dtype, into.dtype, "same_kind"):
            raise ActionError(
                f"{self._name}: expected an action of dtype {into.dtype}, or one that casts to it "
                f"within its kind, got {array.dtype}"
            )
        with np.errstate(over="ignore"):  # what becomes infinite is found later
            into[...] = array

    def _refuse(self) -> None:
        if self._state == "closed":
            raise ClosedError(f"{self._name}: the environment is closed; make a new one")
        words = {
            "new": "call reset first",
            "over": "the episode has ended; call reset before the next step",
            "failed": "an earlier step failed; only reset and close help now",
        }
        raise StateError(f"{self._name}: {words[self._state]}")


def flat_vector(
    num_envs: int = 1, env_id: Any = "uav_swarm_v0", max_episode_steps: int | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """What `gymnasium.make_vec` makes of an id: worlds as rows, one for each world and agent.

    Args:
        num_envs: how many worlds. The vector's own ``num_envs`` counts its rows, ``num_worlds``
            these.
        env_id: as `seer.make` takes it.
        max_episode_steps: the horizon, by Gymnasium's name.
        **kwargs: for `seer.make_vec`, such as ``autoreset_mode``, ``pool``, ``dead`` or ``copy``;
            and for the model.

    Returns:
        A `seer.vector.FlatVectorEnv`.
    """
    from .vector.make import make_vec

    if max_episode_steps is not None:
        kwargs.setdefault("horizon", max_episode_steps)
    return make_vec(env_id, num_envs, layout="flat", **kwargs)
