"""Neighbour queries over a grid of cells, as plain Python; native/src/grid.c does the same."""

from __future__ import annotations

import math
from typing import Any


class Cells:
    """Who was where when the engine last published.

    Args:
        grid: the model's declaration, resolved.
        rows: (count, 2 or 3) float64, published positions.
        alive: (entities,) uint8, published.
    """

    def __init__(self, grid: Any, rows: Any, alive: Any) -> None:
        self._grid, self._rows = grid, rows
        wide, deep = (grid.high[k] - grid.low[k] for k in (0, 1))
        cell, most = grid.cell, 4.0 * max(grid.group.count, 1)
        while True:
            size = [max(1, math.ceil(wide / cell)), max(1, math.ceil(deep / cell))]
            if size[0] * size[1] <= most:
                break
            cell *= 1.25
        self._size, self._inverse, self._pad = size, 1.0 / cell, 1e-9 * cell
        self._cells: dict[tuple[int, int], list[int]] = {}
        first = grid.group.first
        for entity in range(first, first + grid.group.count):
            if alive[entity]:
                at = rows[entity - first]
                place = (self._place(float(at[1]), 1), self._place(float(at[0]), 0))
                self._cells.setdefault(place, []).append(entity)

    def _place(self, value: float, axis: int) -> int:
        """The cell along one axis; outsiders and what is not a number go to the border."""
        at = (value - self._grid.low[axis]) * self._inverse
        if not at > 0:
            return 0
        return self._size[axis] - 1 if at >= self._size[axis] else int(at)

    def near(self, point: list[float], radius: float) -> list[int]:
        """Ids within the radius (inclusive): cells in row order, ids ascending within a cell."""
        if not radius >= 0:
            return []
        x, y = point[:2]
        z = point[2] if len(point) > 2 else 0.0
        reach = radius + self._pad
        columns = range(self._place(x - reach, 0), self._place(x + reach, 0) + 1)
        found = []
        first = self._grid.group.first
        for row in range(self._place(y - reach, 1), self._place(y + reach, 1) + 1):
            for column in columns:
                for entity in self._cells.get((row, column), ()):
                    at = [float(value) for value in self._rows[entity - first]]
                    dx, dy = at[0] - x, at[1] - y
                    dz = (at[2] if len(at) > 2 else 0.0) - z
                    if (dx * dx + dy * dy) + dz * dz <= radius * radius:
                        found.append(entity)
        return found
