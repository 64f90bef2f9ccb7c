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


class Block:
    """The numbers in the infos of some agents, a column for each key.

    Attributes:
        envs, names: of each cell, that is, of each info, even if it holds no number.
        columns: (key, code of the kind, indices of the cells that have it or None for all, their
            values); the last two as the bytes of int32 and of the kind's dtype.
    """

    __slots__ = ("columns", "envs", "names")

    def __init__(
        self, envs: list[int], names: list[Any], columns: list[tuple[Any, str, Any, bytes]]
    ) -> None:
        self.envs, self.names, self.columns = envs, names, columns

    def parts(self) -> tuple[list[int], list[Any], list[tuple[Any, str, Any, bytes]]]:
        """What it is made from again."""
        return self.envs, self.names, self.columns

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
        found: dict[Any, tuple[type, list[int], list[Any]]] = {}
        rest: dict[int, dict[Any, Any]] = {}
        for env, named in infos.items():
            if not named:
                rest[env] = {}
            for name, info in named.items():
                if type(info) is not dict or (type(name) is str and name.startswith("__")):
                    rest.setdefault(env, {})[name] = info
                    continue
                cell = len(envs)
                more: dict[Any, Any] | None = None
                for key, value in info.items():
                    kind = type(value)
                    column = found.get(key)
                    if column is None:
                        if kind in NUMBERS:
                            found[key] = (kind, [cell], [value])
                            continue
                    elif column[0] is kind:
                        column[1].append(cell)
                        column[2].append(value)
                        continue
                    if more is None:
                        more = rest.setdefault(env, {}).setdefault(name, {})
                    more[key] = value
                envs.append(env)
                names.append(name)
        columns: list[tuple[Any, str, Any, bytes]] = []
        for key, (kind, cells, values) in found.items():
            try:
                packed = np.array(values, NUMBERS[kind]).tobytes()
            except OverflowError:  # an int beyond 64 bits
                for cell, value in zip(cells, values, strict=True):
                    rest.setdefault(envs[cell], {}).setdefault(names[cell], {})[key] = value
                continue
            whole = len(cells) == len(envs)
            where = None if whole else np.array(cells, np.int32).tobytes()
            columns.append((key, _CODES[kind], where, packed))
        return (cls(envs, names, columns) if envs else None), rest

    def fill(self, infos: dict[int, dict[Any, Any]]) -> None:
        """Put everything back where it came from."""
        cells: list[dict[Any, Any]] = []
        for env, name in zip(self.envs, self.names, strict=True):
            named = infos.get(env)
            if named is None:
                named = infos[env] = {}
            info = named.get(name)
            if info is None:
                info = named[name] = {}
            cells.append(info)
        for key, code, where, packed in self.columns:
            kind, dtype = _OF_CODE[code]
            array = np.frombuffer(packed, dtype)
            values = array.tolist() if kind in (bool, int, float) else array
            if where is None:
                for info, value in zip(cells, values, strict=True):
                    info[key] = value
            else:
                for cell, value in zip(
                    np.frombuffer(where, np.int32).tolist(), values, strict=True
                ):
                    cells[cell][key] = value


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
