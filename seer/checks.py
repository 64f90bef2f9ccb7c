"""The rules of a model that can be judged without the source of its methods."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .declare import (
    ColumnDecl,
    EventDecl,
    GridDecl,
    OnDecl,
    Param,
    SweepDecl,
    TotalDecl,
)
from .errors import ModelError
from .spec import BUILT_IN, MAX_COLUMNS, finite

SETTINGS = {
    "groups", "agents", "step", "lookahead", "tick", "lane_capacity", "world_capacity",
    "step_capacity", "max_rounds", "spec", "params", "p", "observation_space", "action_space",
    "describe",
}  # fmt: skip
STATE_NAMES = {"seen", "p", "total", "alive", "acted", "draws"}
# numba takes an attribute of this name for the method of numpy's types.
NUMBA_NAMES = {"view"}


def check_declarations(cls: Any) -> None:
    """The rules that do not need the methods' source."""
    for name, decl in cls.declared.items():
        if isinstance(decl, Param) and name in ("step", "lookahead"):
            continue
        if name in SETTINGS:
            raise decl.error("this name is a setting of models; choose another")
        if name.startswith("_"):
            raise decl.error("names may not start with an underscore")
        if isinstance(decl, ColumnDecl) and name in STATE_NAMES:
            raise decl.error("this name is built in; choose another")
        if isinstance(decl, (ColumnDecl, EventDecl, Param, TotalDecl)) and name in NUMBA_NAMES:
            raise decl.error("numba can't compile this name; choose another")
        if name in ("of", "analysis", "declared"):
            raise decl.error("this name is used by models themselves; choose another")
    _check_numbers(cls)
    columns = cls.of(ColumnDecl)
    if len(columns) + len(BUILT_IN) > MAX_COLUMNS:
        raise ModelError(
            f"{cls.__name__}: at most {MAX_COLUMNS - len(BUILT_IN)} columns may be declared, "
            f"got {len(columns)}"
        )
    groups = cls.groups
    if not isinstance(groups, Mapping) or not groups:
        raise ModelError(
            f'{cls.__name__}: groups must name the entities, as in groups = {{"drone": 16}}, '
            f"got {groups!r}"
        )
    for name in groups:
        if not isinstance(name, str) or name in ("all", "<agents>"):
            raise ModelError(f"{cls.__name__}: a group may not be named {name!r}")
    if cls.agents is not None and not isinstance(cls.agents, str):
        raise ModelError(
            f"{cls.__name__}: agents must name one group, the one that acts, got {cls.agents!r}"
        )
    if cls.agents is not None and cls.agents not in groups:
        raise ModelError(f"{cls.__name__}: agents = {cls.agents!r} is no group; {_have(groups)}")
    roles: dict[str, Any] = {}
    for d in columns.values():
        if d.role is not None:
            if cls.agents is None:
                raise d.error(f"a {d.role} needs agents; set agents to one of the groups")
            if d.role in roles:
                raise d.error(f"{roles[d.role].name!r} is the {d.role} already")
            roles[d.role] = d
        elif d.of is not None and d.of != "all" and d.of not in groups:
            raise d.error(f"of={d.of!r} is no group; {_have(groups)}")
    for d in cls.of(SweepDecl).values():
        if d.over is not None and d.over != "all" and d.over not in groups:
            raise d.error(f"over={d.over!r} is no group; {_have(groups)}")
    kinds = cls.of(EventDecl)
    handled: dict[str, Any] = {}
    for d in cls.of(OnDecl).values():
        if d.kind not in kinds:
            near = difflib.get_close_matches(d.kind, kinds, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise d.error(f"there is no event {d.kind!r}{hint} ({_have(kinds)})")
        if d.kind in handled:
            raise d.error(
                f"event {d.kind!r} has a handler already, {handled[d.kind].name!r} at line "
                f"{handled[d.kind].line}"
            )
        handled[d.kind] = d
    for d in cls.of(GridDecl, TotalDecl).values():
        built_in = isinstance(d, TotalDecl) and d.column == "alive"
        if d.column not in columns and not built_in:
            raise d.error(f"there is no column {d.column!r}; {_have(columns)}")
        if isinstance(d, GridDecl):
            c = columns[d.column]
            if not c.published:
                raise d.error(
                    f"a grid needs a published column; write published=True for {d.column!r} "
                    f"(line {c.line})"
                )
            if c.dtype != np.float64:
                raise d.error(f"a grid needs an f8 column, {d.column!r} is {c.dtype.str}")
        elif not built_in and columns[d.column].dtype.str[1:] not in ("u1", "i4", "i8", "f4", "f8"):
            raise d.error(
                f"a total needs a column of u1, i4, i8, f4 or f8, {d.column!r} is "
                f"{columns[d.column].dtype.str[1:]}"
            )


def _check_numbers(cls: Any) -> None:
    """What is a plain number can be judged here; the rest when it is known."""
    for name, least, words in (
        ("step", 0.0, "above 0"), ("lookahead", -1.0, "0 or more"), ("tick", 0.0, "above 0"),
    ):  # fmt: skip
        value = getattr(cls, name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low_enough = value > least if least == 0.0 else value >= 0
            if not (finite(value) and low_enough):
                raise ModelError(
                    f"{cls.__name__}: {name} must be finite and {words} (seconds), got {value!r}"
                )
    for d in cls.of(SweepDecl).values():
        if isinstance(d.at, (int, float)) and not (finite(d.at) and d.at >= 0):
            raise d.error(f"at must be finite and 0 or more (seconds), got {d.at!r}")
        if isinstance(d.at, str) and d.at != "end" and d.at not in cls.of(Param):
            raise d.error(f'at must be seconds, "end" or the name of a parameter, got {d.at!r}')


def _have(names: Mapping[str, Any]) -> str:
    return "there is " + ", ".join(repr(n) for n in names) if names else "there is none"
