"""Checking actions: whole arrays at once, agent by agent only where something is wrong."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .errors import ActionError, ConfigError


class ActionCheck:
    """The action column of an engine and the rules for what goes in.

    Args:
        column: (worlds, agents, ...) the column itself.
        alive: (worlds, agents) bool, who must have a legal action.
        group: name of the agents' group.
        space: the Gymnasium space of one agent, or None: then only finite numbers are asked for.
        strict: whether a value outside a Box is an error instead of being clipped.
    """

    def __init__(self, column: Any, alive: Any, group: str, space: Any, strict: bool) -> None:
        self.column, self._alive, self._group, self._strict = column, alive, group, strict
        self.clipped = 0
        self._float = column.dtype.kind == "f"
        self._low: Any = None
        self._high: Any = None
        if space is not None:
            self._low, self._high = _bounds(space, column.shape[2:], column.dtype)
        self._bounds_finite = self._low is not None and bool(
            np.isfinite(self._low).all() and np.isfinite(self._high).all()
        )
        self._scratch = np.empty_like(column)
        self._flags = np.empty(column.shape, bool)

    def take(self, given: Any, mask: Any) -> None:
        """Check the actions and put them into the column.

        Args:
            given: (worlds, agents, ...), or None for what the caller wrote into the column.
            mask: (worlds,) uint8, the worlds that take part; None for all.

        Raises:
            ActionError: names the world and the agent.
        """
        column = self.column
        values = column if given is None else self._converted(given, mask)
        if not self._all_legal(values):
            values = self._repaired(values, mask)
        if values is column:
            return
        if mask is None:
            np.copyto(column, values, casting="unsafe")
        else:
            chosen = mask != 0
            column[chosen] = values[chosen]

    def _converted(self, given: Any, mask: Any) -> Any:
        """What was given, as an array of the column's shape and dtype."""
        column = self.column
        try:
            values = np.asarray(given)
        except Exception as error:  # whatever a tensor of another library raises
            raise ActionError(
                f"actions: expected an array of shape {column.shape}, got {type(given).__name__}: "
                f"{error}"
            ) from error
        if values.shape != column.shape:
            raise ActionError(
                f"actions: expected shape {column.shape} (worlds, {self._group}, ...), "
                f"got {values.shape}"
            )
        if values.dtype == column.dtype:
            return values
        if not np.can_cast(values.dtype, column.dtype, "same_kind"):
            raise ActionError(
                f"actions: expected dtype {column.dtype}, or one that casts to it within its kind, "
                f"got {values.dtype}"
            )
        if not self._float:
            limits = np.iinfo(column.dtype)
            wrong = (values < limits.min) | (values > limits.max)
            if wrong.any():
                expected = f"an integer from {limits.min} to {limits.max}"
                self._complain(values, wrong, expected, np.ones(wrong.shape[:2], bool))
        with np.errstate(over="ignore"):  # what becomes infinite is found later
            np.copyto(self._scratch, values, casting="same_kind")
        return self._scratch

    def _all_legal(self, values: Any) -> bool:
        flags = self._flags
        if self._low is not None:
            # Not a number compares false, so it fails these as well.
            if not np.greater_equal(values, self._low, out=flags).all():
                return False
            if not np.less_equal(values, self._high, out=flags).all():
                return False
            if self._bounds_finite:
                return True
        return not self._float or bool(np.isfinite(values, out=flags).all())

    def _repaired(self, values: Any, mask: Any) -> Any:
        """The same actions, legal: an error for what can't be, clipped what may be."""
        live = self._alive if mask is None else self._alive & (mask != 0)[:, None]
        wanted = live.reshape(live.shape + (1,) * (values.ndim - 2))
        if self._float:
            wrong = ~np.isfinite(values)
            if (wrong & wanted).any():
                self._complain(values, wrong, "finite numbers", live)
            # The actions of the dead are ignored, but what lies in the column is well-defined.
            values = np.where(wrong, np.zeros((), values.dtype), values)
        if self._low is None:
            return values
        outside = ((values < self._low) | (values > self._high)) & wanted
        if outside.any():
            if self._strict or not self._float:
                self._complain(values, outside, _range(self._low, self._high), live)
            self.clipped += int(outside.reshape(*live.shape, -1).any(axis=2).sum())
        return np.clip(values, self._low, self._high)

    def _complain(self, values: Any, wrong: Any, expected: str, live: Any) -> NoReturn:
        rows = wrong.reshape(*wrong.shape[:2], -1).any(axis=2) & live
        world, agent = (int(k) for k in np.argwhere(rows)[0])
        others = int(rows.sum()) - 1
        more = f" ({others} more like it)" if others else ""
        raise ActionError(
            f"action of {self._group}_{agent} in world {world}: expected {expected}, "
            f"got {values[world, agent].tolist()}{more}",
            world=world,
            agent=f"{self._group}_{agent}",
        )


def _bounds(space: Any, row: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """Lowest and highest legal value: one for all components, or a row where they differ."""
    if hasattr(space, "nvec"):  # MultiDiscrete
        low = np.zeros_like(space.nvec) + getattr(space, "start", 0)
        high = low + space.nvec - 1
    elif hasattr(space, "n") and hasattr(space, "start"):  # Discrete
        low = np.asarray(int(space.start))
        high = low + int(space.n) - 1
    elif hasattr(space, "n"):  # MultiBinary
        low, high = np.asarray(0), np.asarray(1)
    elif hasattr(space, "low") and hasattr(space, "high"):  # Box
        low, high = np.asarray(space.low), np.asarray(space.high)
    else:
        raise ConfigError(
            "action_space must give a gymnasium Box, Discrete, MultiDiscrete or MultiBinary, got "
            f"{space!r}"
        )
    if dtype.kind == "f":
        low, high = low.astype(dtype), high.astype(dtype)
    if (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return low.flat[0], high.flat[0]  # one number compares faster than a row of equal ones
    return np.broadcast_to(low, row), np.broadcast_to(high, row)


def _range(low: Any, high: Any) -> str:
    return f"values from {np.asarray(low).tolist()} to {np.asarray(high).tolist()}"
