"""The numbers in infos on their way between processes: columns, and arrays straight from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..types import Array, BoolArray
from .columns import NUMBERS

__all__ = ["Block", "scatter"]

_CODES: dict[type, str] = {
    kind: kind.__name__ if kind in (bool, int, float) else dtype.str
    for kind, dtype in NUMBERS.items()
}
_OF_CODE: dict[str, tuple[type, np.dtype[Any]]] = {
    code: (kind, NUMBERS[kind]) for kind, code in _CODES.items()
}


Column = tuple[Any, str, Any, bytes]
"""Key, code of the kind, indices of the cells that have it or None for all, their values; the
last two as the bytes of int32 and of the kind's dtype."""


class Block:
    """The numbers in the infos of some agents, a column for each key.

    Attributes:
        envs, names: of each cell, that is, of each info, even if it holds no number.
        columns: of numbers.
        orders: {cell: its keys in order}, where that is not the order of the columns alone.
    """

    __slots__ = ("columns", "envs", "names", "orders")

    def __init__(
        self,
        envs: list[int],
        names: list[Any],
        columns: list[Column],
        orders: dict[int, tuple[Any, ...]],
    ) -> None:
        self.envs, self.names, self.columns, self.orders = envs, names, columns, orders

    def parts(self) -> tuple[Any, ...]:
        """What it is made from again."""
        return self.envs, self.names, self.columns, self.orders

    @classmethod
    def of(
        cls, infos: Mapping[int, Mapping[Any, Any]]
    ) -> tuple[Block | None, dict[int, dict[Any, Any]]]:
        """Numbers in columns, and the infos of all the rest.

        Args:
            infos: {env: {name: info}}.
        """
        envs: list[int] = []
        names: list[Any] = []
        orders: dict[int, tuple[Any, ...]] = {}
        same: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # one object for equal orders
        found: dict[Any, tuple[type, list[int], list[Any], int]] = {}
        rest: dict[int, dict[Any, Any]] = {}
        for env, named in infos.items():
            if not named:
                rest[env] = {}
            for name, info in named.items():
                if type(info) is not dict or (type(name) is str and name.startswith("__")):
                    rest.setdefault(env, {})[name] = info
                    continue
                cell, last, in_order = len(envs), -1, True
                for key, value in info.items():
                    kind = type(value)
                    column = found.get(key)
                    if column is None and kind in NUMBERS:
                        found[key] = (kind, [cell], [value], len(found))
                        last = len(found) - 1
                    elif column is not None and column[0] is kind:
                        column[1].append(cell)
                        column[2].append(value)
                        in_order, last = in_order and column[3] > last, column[3]
                    else:
                        rest.setdefault(env, {}).setdefault(name, {})[key] = value
                        in_order = False
                if not in_order:
                    order = tuple(info)
                    orders[cell] = same.setdefault(order, order)
                envs.append(env)
                names.append(name)
        columns: list[Column] = []
        for key, (kind, cells, values, _) in found.items():
            try:
                packed = np.array(values, NUMBERS[kind]).tobytes()
            except OverflowError:  # an int beyond 64 bits
                for cell, value in zip(cells, values, strict=True):
                    env, name = envs[cell], names[cell]
                    orders[cell] = tuple(infos[env][name])
                    rest.setdefault(env, {}).setdefault(name, {})[key] = value
                continue
            whole = len(cells) == len(envs)
            where = None if whole else np.array(cells, np.int32).tobytes()
            columns.append((key, _CODES[kind], where, packed))
        return (cls(envs, names, columns, orders) if envs else None), rest

    def fill(self, infos: dict[int, dict[Any, Any]]) -> None:
        """Put everything back where it came from, and in its order.

        Args:
            infos: {env: {name: info}}, what was not in columns.
        """
        found: dict[int, dict[Any, dict[Any, Any]]] = {}
        cells: list[dict[Any, Any]] = []
        for env, name in zip(self.envs, self.names, strict=True):
            named = found.get(env)
            if named is None:
                named = found[env] = {}
            info: dict[Any, Any] = {}
            named[name] = info
            cells.append(info)
        for key, code, where, packed in self.columns:
            kind, dtype = _OF_CODE[code]
            array = np.frombuffer(packed, dtype)
            values = array.tolist() if kind in (bool, int, float) else array
            if where is None:
                some = cells
            else:
                some = [cells[cell] for cell in np.frombuffer(where, np.int32).tolist()]
            for info, value in zip(some, values, strict=True):
                info[key] = value
        for cell, order in self.orders.items():
            env, name = self.envs[cell], self.names[cell]
            both = {**cells[cell], **infos.get(env, {}).pop(name, {})}
            found[env][name] = {key: both[key] for key in order}
        for env, named in found.items():
            named.update(infos.get(env, ()))
            infos[env] = named


def scatter(
    outs: list[dict[str, Any]],
    rows: int,
    blocks: list[Block],
    position: Callable[[list[int], list[Any]], list[int]],
    taken: Iterable[Any] = (),
    gymnasium: bool = False,
) -> bool:
    """As `spread`, straight from the columns of blocks; False, and nothing done, if it can't.

    Args:
        outs, rows, gymnasium: as in `spread`.
        blocks: of numbers.
        position: (environments, names) -> their positions. Raises KeyError for a name that has
            none.
        taken: keys under which there are also values that are not in the blocks.
    """
    keys: dict[Any, tuple[str, list[tuple[Array, Array]]]] = {}
    for block in blocks:
        try:
            at = np.array(position(block.envs, block.names), np.intp)
        except KeyError:
            return False
        for key, code, where, packed in block.columns:
            before = keys.get(key)
            if before is None:
                before = keys[key] = (code, [])
            elif before[0] != code:
                return False
            cells = at if where is None else at[np.frombuffer(where, np.int32)]
            before[1].append((cells, np.frombuffer(packed, _OF_CODE[code][1])))
    if not keys.keys().isdisjoint(taken):
        return False
    if gymnasium and any(_OF_CODE[code][0] is np.bool_ for code, _ in keys.values()):
        return False
    total = rows * len(outs)
    for key, (code, parts) in keys.items():
        array: Array = np.zeros(total, _OF_CODE[code][1])
        mask: BoolArray = np.zeros(total, np.bool_)
        for cells, values in parts:
            array[cells] = values
            mask[cells] = True
        _share(outs, rows, key, array, mask)
    return True


def _share(outs: list[dict[str, Any]], rows: int, key: Any, array: Array, mask: BoolArray) -> None:
    """To each agent its part of an array and its mask, if it has a value in it."""
    shadow = f"_{key}"
    if len(outs) == 1:
        outs[0][key], outs[0][shadow] = array, mask
        return
    some: Any = mask.reshape(len(outs), rows).any(1).tolist()
    start = 0
    for out, has in zip(outs, some, strict=True):
        if has:
            out[key] = array[start : start + rows]
            out[shadow] = mask[start : start + rows]
        start += rows
