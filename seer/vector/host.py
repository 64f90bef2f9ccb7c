"""Steps a range of environments in this process and packs what they report into a frame.

`Host.step` is the loop. Environments in which everybody lives are stepped by `quick.py`, and what
they report is taken as it comes while nothing ends; anything else is looked at agent by agent
(`_closely`), which is also where automatic resets happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ResultError, StateError
from ..types import Array, BoolArray
from .cells import Cell
from .contract import FLAGGED, OBSERVED, REWARDED, Actions, EnvFailure, Side, VecSpec
from .frames import Frame
from .infos import copy_info
from .outgoing import ActionRows
from .pack import flattened, quick_format, stack
from .quick import Quick, pack_in_c
from .rows import RowWriter, quieten
from .turns import TurnRows

__all__ = ["Host"]


class Host:
    """Environments lo, lo + 1, … of a vector.

    Args:
        spec: of the vector.
        lo: number of the first.
        cells: the environments.
    """

    def __init__(self, spec: VecSpec, lo: int, cells: Sequence[Cell]) -> None:
        self.spec, self.lo, self.cells = spec, lo, list(cells)
        self.hi = lo + len(self.cells)
        self._all = slice(self.lo, self.hi)
        self._numbers = list(range(self.lo, self.hi))
        self._formats = [[quick_format(x) for x in g.observation.leaves] for g in spec.groups]
        self._names, self._count = list(spec.agents), len(spec.agents)
        self._head: Array | None = None
        self._rows = RowWriter(spec)
        self._quick = Quick(spec, len(self.cells))
        self._quickly = (
            spec.kind in ("parallel", "gymnasium") and spec.batchable and not spec.reserved
        )
        self._turns: TurnRows | None = None
        if spec.kind == "aec" and all(g.observation.batchable for g in spec.groups):
            self._turns = TurnRows(spec)

    # ---- the loop

    def step(self, frame: Frame, actions: Actions, only: Sequence[int] | None = None) -> Side:
        """Step environments and write their rows.

        Args:
            frame: what is written.
            actions: read for who is live; copied, so environments may keep what they are given.
            only: which environments; all by default.

        Raises:
            EnvFailure: an environment raised. Those after it were not stepped.
        """
        side = Side()
        cells = self.cells if only is None else [self.cells[env - self.lo] for env in only]
        if only is None:
            rows = ActionRows(self.spec, actions, self.lo, self.hi)
        else:
            rows = ActionRows(self.spec, actions, min(only, default=0), max(only, default=-1) + 1)
        actions.ready = None
        usual = [cell for cell in cells if cell.full] if self._quickly else []
        odd: list[tuple[int, Any]] = []  # what they returned that is to be looked at closely
        if usual:
            whole = len(usual) == len(self.cells)
            quick = self._numbers if whole else [cell.index for cell in usual]
            obs, told = self._quick.run(usual, quick, rows, odd)
            for j, infos in told:
                side.infos[usual[j].index] = _kept(infos)
            rewards = self._quick.rewards[: len(usual)]
            if odd:
                special = {j for j, _ in odd}
                kept = [j for j in range(len(usual)) if j not in special]
                quick, rewards = [quick[j] for j in kept], rewards[kept]
            if quick:
                _guarded(quick[0], self._place, frame, quick, obs, rewards)
        for j, result in odd:
            _guarded(usual[j].index, self._closely, frame, usual[j], side, None, result)
        if len(usual) < len(cells):
            quick_ones = set(map(id, usual))
            turns = self._turns
            if turns is not None:
                turns.clear()  # of a step that failed
            for cell in cells:
                if id(cell) not in quick_ones:
                    _guarded(cell.index, self._closely, frame, cell, side, rows)
            if turns is not None:
                _guarded(cells[0].index, turns.write, frame)
        return side

    def _place(self, frame: Frame, envs: list[int], obs: list[Any], rewards: Array) -> None:
        """Write the rows of environments that had nothing special to tell."""
        spec, count = self.spec, len(envs)
        whole = count == self.hi - self.lo
        rows: Any = self._all if whole else envs
        if whole and count == frame.rows:
            if self._head is None:
                self._head = frame.layout.usual_head()
            frame.root[: frame.layout.head] = self._head
            frame.usual, frame.results = True, self._quick.results
            self._quick.results = None
        else:
            frame.flags[:, rows] = False
            frame.lives[:, rows] = True
            frame.seen[rows] = OBSERVED | REWARDED | FLAGGED
            frame.over[rows] = False
            frame.was_reset[rows] = False
            frame.turn[rows] = -1
        frame.reward[rows] = rewards
        for g, group in enumerate(spec.groups):
            mine = obs
            if not group.whole:
                slots, total = group.slots.tolist(), self._count
                mine = [obs[row * total + slot] for row in range(count) for slot in slots]
            if group.observation.single:
                parts: list[Any] = [mine]
            else:
                flat = flattened(group, mine, envs)
                parts = [[one[k] for one in flat] for k in range(len(group.observation.leaves))]
            for k, (leaf, values, target) in enumerate(
                zip(group.observation.leaves, parts, frame.obs[g], strict=True)
            ):
                form = self._formats[g][k]
                if whole and form:
                    address = frame.memo.get((g, k))
                    if address is None:
                        address = frame.memo[g, k] = int(target[rows].ctypes.data)
                    if pack_in_c(values, np.ndarray, form, leaf.shape, address):
                        continue
                stack(leaf, values, target, rows, envs, group.agents)

    # ---- one environment, looked at closely

    def reset(
        self, frame: Frame, chosen: BoolArray | None, seeds: Sequence[Any], options: Sequence[Any]
    ) -> Side:
        """Begin episodes and write their rows.

        Args:
            frame: what is written; rows that are not chosen get reward 0 and no flags.
            chosen: (N,) bool, which environments; None: all.
            seeds, options: (N,) of each environment.

        Raises:
            EnvFailure: an environment raised.
        """
        side = Side()
        for cell in self.cells:
            env = cell.index
            if chosen is not None and not chosen[env]:
                quieten(frame, env)
                continue
            try:
                outcome = cell.reset(seeds[env], options[env])
                self._rows.write(frame, cell, outcome, side, before=(), was_reset=False)
            except Exception as error:
                raise EnvFailure(env, error) from error
        return side

    def begin(self, frame: Frame, env: int, seed: int | None, options: Any) -> Side:
        """Begin an episode in one environment; no other row is touched.

        Raises:
            EnvFailure: it raised.
        """
        side, cell = Side(), self.cell(env)
        try:
            outcome = cell.reset(seed, options)
            self._rows.write(frame, cell, outcome, side, before=(), was_reset=False)
        except Exception as error:
            raise EnvFailure(env, error) from error
        return side

    def begin_again(self, frame: Frame, env: int) -> Side:
        """The same, as an automatic reset does it.

        Raises:
            EnvFailure: it raised.
        """
        try:
            options = self._options(self.cell(env))
        except Exception as error:
            raise EnvFailure(env, error) from error
        return self.begin(frame, env, None, options)

    def _closely(
        self,
        frame: Frame,
        cell: Cell,
        side: Side,
        rows: ActionRows | None = None,
        result: Any = None,
    ) -> None:
        """Step one environment, or reset it, by the mode; or understand its `result`."""
        env, mode = cell.index, self.spec.mode
        if cell.over:
            if mode != "next_step":
                raise StateError(
                    f"environment {env} has ended; reset it before the next step (autoreset is "
                    f"{mode})"
                )
            outcome = cell.reset(None, self._options(cell))
            self._rows.write(frame, cell, outcome, side, before=(), was_reset=True)
            return
        before = list(cell.live)
        slots = [cell.slot(agent) for agent in before]
        if rows is not None:
            outcome = cell.step(rows.of(cell, slots))
        else:
            outcome = cell.settle(result)
        if self._turns is not None and self._turns.takes(cell, slots[0], outcome, side):
            return
        self._rows.write(frame, cell, outcome, side, before=before)
        if mode == "same_step" and frame.over[env]:
            self._rows.keep_last(frame, cell, outcome, side)
            outcome = cell.reset(None, self._options(cell))
            self._rows.write_first(frame, cell, outcome, side)

    def _options(self, cell: Cell) -> Any:
        options = self.spec.options
        if options == "last":
            return cell.last_options
        if callable(options):
            return options(cell.index, cell.episode + 1)
        return options

    # ---- everything else

    def cell(self, env: int) -> Cell:
        """Environment number `env`."""
        return self.cells[env - self.lo]

    def call(self, env: int, name: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A method's result, or an attribute's value, looked for through wrappers.

        In place of a name, an importable function is called with the environment first.
        """
        target = self.cell(env).env
        if not isinstance(name, str):
            return name(target, *args, **kwargs)
        value = _attribute(target, name)
        return value(*args, **kwargs) if callable(value) else value

    def set_attr(self, env: int, name: str, value: Any) -> None:
        """Set an attribute where it is found, else on the outermost wrapper."""
        _set(self.cell(env).env, name, value)

    def render(self, env: int) -> Any:
        """A frame of one environment."""
        picture = self.cell(env).env.render()
        return picture.copy() if isinstance(picture, np.ndarray) else picture

    def close(self) -> list[EnvFailure]:
        """Close every environment once; what they raised meanwhile.

        Raises:
            BaseException: Ctrl-C, or an environment's own, when all are closed.
        """
        failures = []
        interrupt: BaseException | None = None
        for cell in self.cells:
            try:
                cell.close()
            except Exception as error:
                failures.append(EnvFailure(cell.index, error))
            except BaseException as error:
                interrupt = interrupt or error
        if interrupt is not None:
            raise interrupt
        return failures


def _guarded(env: int, act: Callable[..., Any], *args: Any) -> None:
    """Call, and say of which environment an exception is."""
    try:
        act(*args)
    except EnvFailure:
        raise
    except Exception as error:
        named = error.env if isinstance(error, ResultError) else None
        raise EnvFailure(env if named is None else named, error) from error


def _kept(infos: Any) -> dict[str, Any]:
    return {agent: copy_info(info) for agent, info in infos.items() if info}


def _attribute(env: Any, name: str) -> Any:
    try:
        return getattr(env, name)
    except AttributeError:
        get = getattr(env, "get_wrapper_attr", None)
        if get is not None:
            return get(name)
        inner = getattr(env, "env", None)
        if inner is None or inner is env:
            raise
        return _attribute(inner, name)


def _set(env: Any, name: str, value: Any) -> None:
    setter = getattr(env, "set_wrapper_attr", None)
    if setter is not None:
        setter(name, value)
        return
    target = env
    while True:
        if name in vars(target) or hasattr(type(target), name):
            break
        inner = vars(target).get("env")
        if inner is None:
            target = env
            break
        target = inner
    setattr(target, name, value)
