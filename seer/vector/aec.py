"""Turn-based environments: PettingZoo's AECEnv as a cell, and one action for each environment.

Every copy advances by one move of its own current agent. What the plain loop

    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        env.step(None if terminated or truncated else choose(observation))

reads of an agent is what the vector delivers of it, each once: `last` is read exactly when that
loop would read it, so wrappers see the calls that they expect. The turns of agents that have
ended are made inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ActionError, ResultError
from ..types import Array
from .cells import Cell, Outcome, number, truth
from .contract import Actions, VecSpec
from .infos import copy_info
from .leaves import Leaf
from .legal import fitted

__all__ = ["AecCell", "take_turn_actions"]


class AecCell(Cell):
    """A PettingZoo ``AECEnv``.

    One step is the current agent's move and all turns of ended agents that follow it. It reports
    the agent that is then to act (observation, reward since it last acted, info, flags False) and
    everybody who had an ended agent's turn meanwhile (last observation, reward and info, and the
    flags). `live` is the agent to act alone, `turn` its slot; -1 when the episode is over, and
    for an agent that has no slot.
    """

    def __init__(self, env: Any, spec: VecSpec, index: int) -> None:
        super().__init__(env, spec, index)
        self._known: dict[str, None] = {}  # who is listed, in order of appearance
        self._dead: set[str] = set()
        self._held = Outcome({}, {}, {}, {}, {})  # of the reset; reported by the first step

    def reset(self, seed: int | None, options: Any) -> Outcome:
        """Begin an episode. Nothing but observations and infos are reported."""
        self._begin(seed, options)
        self._known, self._dead = {}, set()
        self._held = Outcome({}, {}, {}, {}, {})
        self._meet()
        if not self._known:
            raise ResultError(
                f"environment {self.index}: env.agents is empty after reset; a turn-based "
                "environment must name its agents and select one of them",
                env=self.index,
            )
        found = self._advance()
        # A reset has no rewards and flags to return; what there is of them is not lost.
        self._held = Outcome(
            {}, {a: r for a, r in found.rewards.items() if r},
            {a: f for a, f in found.terminations.items() if a in self._dead},
            {a: f for a, f in found.truncations.items() if a in self._dead}, {},
        )  # fmt: skip
        return Outcome(found.obs, {}, {}, {}, found.infos)

    def step(self, actions: dict[str, Any]) -> Outcome:
        """Make the current agent's move."""
        self.env.step(actions[self.live[0]])
        self._meet()
        found, held = self._advance(), self._held
        if not (held.rewards or held.terminations or held.truncations):
            return found
        self._held = Outcome({}, {}, {}, {}, {})
        rewards = dict(found.rewards)
        for agent, reward in held.rewards.items():
            rewards[agent] = rewards.get(agent, 0.0) + reward
        return Outcome(
            found.obs, rewards, {**held.terminations, **found.terminations},
            {**held.truncations, **found.truncations}, found.infos,
        )  # fmt: skip

    def _advance(self) -> Outcome:
        """Everything up to the next agent that must choose."""
        env = self.env
        out = Outcome({}, {}, {}, {}, {})
        again = 0
        while env.agents:
            agent, ended, repeated = self._look(out)
            if not ended:
                self._part(out)
                self.live = [agent]
                slot = self.slot(agent)
                self.turn = -1 if slot is None else slot
                return out
            again += repeated
            if again > 2 * len(env.agents):
                raise ResultError(
                    f"environment {self.index}: it selects agents that have ended again and "
                    f"again (now {agent!r}); step(None) must remove the selected agent, as "
                    "AECEnv._was_dead_step does, and select another",
                    env=self.index, agent=agent,
                )  # fmt: skip
            env.step(None)
            self._meet()
            self._part(out)
            if self._dead.issuperset(env.agents):
                break  # it keeps ended agents in its list: nobody is left to act
        self.over = True
        self.live, self.turn = [], -1
        # An environment that empties its list without an agent's last turn has cut it off.
        self._leave([a for a in self._known if a not in self._dead], out)
        return out

    def _look(self, out: Outcome) -> tuple[str, bool, bool]:
        """Note what the environment has for the selected agent, unless it has been told.

        Returns:
            The agent, whether it has ended, and whether that was known before.
        """
        env = self.env
        agent: str = env.agent_selection
        try:
            obs, reward, term, trunc, info = env.last()
        except (AttributeError, KeyError) as error:
            if agent in env.agents:
                raise
            raise ResultError(
                f"environment {self.index}: agent_selection is {agent!r}, which is not among "
                f"env.agents {list(env.agents)}",
                env=self.index,
            ) from error
        term, trunc = truth(term, self.index, agent), truth(trunc, self.index, agent)
        ended = term or trunc
        if ended:
            if agent in self._dead:
                return agent, True, True
            self._dead.add(agent)
            # The next observation and info may be made in the same memory.
            obs, info = copy_info(obs), copy_info(info)
        else:
            self._dead.discard(agent)  # perhaps it ended before, and lives again
        parts: Any = out
        if obs is not None:
            parts.obs[agent] = obs
        parts.rewards[agent] = number(reward, self.index, agent)
        parts.terminations[agent], parts.truncations[agent] = term, trunc
        if info:
            parts.infos[agent] = info
        return agent, ended, False

    def _meet(self) -> None:
        """Note who appeared; who comes back after its end begins a new life."""
        known = self._known
        new = [a for a in self.env.agents if a not in known]
        if new:
            known.update(dict.fromkeys(new))
            self._dead.difference_update(new)

    def _part(self, out: Outcome) -> None:
        """Note who is gone without having had a last turn."""
        agents = self.env.agents
        gone = [a for a in self._known if a not in agents]
        if gone:
            self._leave([a for a in gone if a not in self._dead], out)
            for agent in gone:
                del self._known[agent]

    def _leave(self, agents: list[str], out: Outcome) -> None:
        flags: Any = out
        terms = getattr(self.env, "terminations", None) or {}
        for agent in agents:
            term = agent in terms and truth(terms[agent], self.index, agent)
            flags.terminations[agent], flags.truncations[agent] = term, not term
            self._dead.add(agent)


def take_turn_actions(
    spec: VecSpec, turn: Array, actions: Any, into: Actions, envs: Array | None = None
) -> None:
    """One action for each environment, given to the agent whose turn it is.

    Args:
        spec: of the vector.
        turn: (N,) int64, slot of the agent to act in each environment; -1: none, and the value
            there is not looked at.
        actions: (rows, ...) an array or a list, or for an action space of dicts or tuples the
            same of arrays (rows, ...).
        into: what the backend reads.
        envs: (rows,) the environment of each row; None: all in order.

    Raises:
        ActionError: not one for each row, or one of a wrong shape or dtype.
    """
    envs = np.arange(spec.num_envs) if envs is None else envs
    slots = turn[envs]
    if _at_once(spec, slots, actions, into, envs):
        return
    for row, (env, slot) in enumerate(zip(envs.tolist(), slots.tolist(), strict=True)):
        if slot < 0:
            continue
        g, k = spec.where[slot]
        group, agent = spec.groups[g], spec.agents[slot]
        value = _row(spec, group.action, actions, row, len(envs))
        if not group.action.batchable:
            into.side.setdefault(env, {})[agent] = copy_info(value)
            continue
        for leaf, target, part in zip(
            group.action.leaves, into.leaves[g], _taken_apart(spec, group, value, env, agent),
            strict=True,
        ):  # fmt: skip
            target[env, k] = _fitted(spec, leaf, part, env, agent)


def _at_once(spec: VecSpec, slots: Array, actions: Any, into: Actions, envs: Array) -> bool:
    """The usual case: arrays that hold a legal value for each row, all agents in one group."""
    group = spec.groups[0]
    if not group.whole or not group.action.batchable:
        return False
    try:
        parts = group.action.flatten(actions)
        arrays = [np.asarray(part) for part in parts]
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return False
    for leaf, array in zip(group.action.leaves, arrays, strict=True):
        if array.shape != (len(envs), *leaf.shape):
            return False
        if not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
            return False
    acting: Any = slots >= 0
    if acting.all():
        acting = slice(None)
    for target, array in zip(into.leaves[0], arrays, strict=True):
        target[envs[acting], slots[acting]] = array[acting]
    return True


def _row(spec: VecSpec, tree: Any, actions: Any, row: int, count: int) -> Any:
    """One row of what was given."""
    batch = isinstance(actions, Mapping) or (
        isinstance(actions, tuple) and tree.batchable and not tree.single
        and len(actions) == len(tree.space)
    )  # fmt: skip
    try:
        if batch:
            return tree.build([part[row] for part in tree.flatten(actions)])
        if len(actions) == count:
            return actions[row]
        came = f"{len(actions)}"
    except (IndexError, KeyError, TypeError, ValueError) as error:
        came = f"{type(actions).__name__} ({error})"
    raise ActionError(
        f"{spec.name}: expected {count} actions, one for each environment's current agent, got "
        f"{came}"
    )


def _taken_apart(spec: VecSpec, group: Any, value: Any, env: int, agent: str) -> Any:
    try:
        return group.action.flatten(value)
    except (IndexError, KeyError, TypeError) as error:
        raise ActionError(
            f"{spec.name}: environment {env}, agent {agent!r}: expected an action of "
            f"{group.action.space}, got {value!r} ({error!r})",
            world=env, agent=agent,
        ) from None  # fmt: skip


def _fitted(spec: VecSpec, leaf: Leaf, value: Any, env: int, agent: str) -> Any:
    """A value of the leaf's shape and of a dtype that casts to its own within its kind."""
    where = f"{spec.name}: environment {env}, agent {agent!r}, whose turn it is"
    if value is None:
        raise ActionError(f"{where}: its action is None", world=env, agent=agent)
    return fitted(leaf, value, where, env, agent)
