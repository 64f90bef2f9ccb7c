"""What a method may call: ctx and its arguments, helpers, numpy. Part of :mod:`seer.analysis`."""

from __future__ import annotations

import ast
import builtins
import difflib
import types
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .source import function_tree, parameter_names

#: attribute of ctx -> (fewest, most) arguments; None: it is a value.
CTX: dict[str, tuple[int, int] | None] = {
    "now": None, "time": None, "step": None,
    "send": (3, 99), "send_ticks": (3, 99), "near": (4, 5), "found": (1, 1), "uniform": (0, 0),
    "normal": (0, 0), "bits": (0, 0), "integers": (1, 1), "fail": (1, 1),
}  # fmt: skip
EVENT = ("time", "source", "sequence", "round")
_MAX_DEPTH = 8
_FILLS = (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal)


class Role(NamedTuple):
    """What an expression stands for: of ctx, s, the entity, the event, or a part of s."""

    what: str
    name: str = ""
    seen: bool = False


CTX_ROLE, STATE, ENTITY, EVENT_ROLE = Role("ctx"), Role("s"), Role("entity"), Role("event")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1, 0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return "there is " + ", ".join(map(repr, known)) if known else "none is declared"


class Calls:
    """The half of the walk that follows calls; the other is in :mod:`seer.analysis`."""

    fn: Any
    env: dict[str, Role | None]
    stack: list[Any]
    unknown: bool
    kinds: dict[str, Any]
    grids: dict[str, Any]

    def refuse(self, node: ast.AST, text: str) -> NoReturn:
        """A rule is broken here."""
        raise NotImplementedError

    def value(self, node: ast.AST | None, use: str = "value") -> Role | None:
        """Walk an expression and tell what it stands for."""
        raise NotImplementedError

    def write(self, node: ast.AST, role: Role) -> None:
        """Note a write to a column, or refuse it."""
        raise NotImplementedError

    def function(self, fn: Any, tree: ast.FunctionDef, env: dict[str, Role | None]) -> None:
        """Walk a function's body."""
        raise NotImplementedError

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """The shape of a column's row; None when it is not known yet."""
        raise NotImplementedError

    def call(self, node: ast.Call) -> None:
        """Check a call, and follow it where it takes state along."""
        target = self.value(node.func, "base")
        if target is not None and target.what == "method":
            self.ctx_call(node, target.name)
            return
        if target is not None:
            self.refuse(node, f"{ast.unparse(node.func)} can't be called")
        roles = [self.value(a, "argument") for a in node.args]
        keys = {k.arg: self.value(k.value, "argument") for k in node.keywords}
        if not any(roles) and not any(keys.values()):
            return
        fn = self.resolve(node.func)
        fn = getattr(fn, "py_func", None) or fn
        if isinstance(fn, types.FunctionType):
            tree = function_tree(fn)
            names = parameter_names(fn)
            fits = None not in keys and not any(isinstance(a, ast.Starred) for a in node.args)
            if tree is not None and fits and len(roles) <= len(names):
                self.helper(fn, tree, {**dict(zip(names, roles, strict=False)), **keys})  # type: ignore[dict-item]
                return
        elif fn is not None:  # a builtin or numpy function: it reads all but its outputs
            inputs = fn.nin if isinstance(fn, np.ufunc) else 0 if fn in _FILLS else len(roles)
            for role in (*roles[inputs : inputs + 1], keys.get("out")):
                if role is not None:
                    self.write(node, role)
            return
        for role in (*roles, *keys.values()):  # it can't be followed, so it may write
            if role is not None and role.what in ("s", "ctx"):
                self.unknown = self.unknown or role.what == "s"
            elif role is not None and not role.seen and role.name:
                self.write(node, role)

    def helper(self, fn: Any, tree: ast.FunctionDef, env: dict[str, Role | None]) -> None:
        """Follow a call into a helper's body."""
        state = (fn, env)
        if any(f is fn for f, _ in self.stack) or len(self.stack) > _MAX_DEPTH:
            return
        outer_fn, outer_env = self.fn, self.env
        self.stack.append(state)
        self.function(fn, tree, dict(env))
        self.stack.pop()
        self.fn, self.env = outer_fn, outer_env

    def resolve(self, node: ast.AST) -> Any:
        """The object that a name or a dotted name stands for, or None."""
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return getattr(base, node.attr, None) if isinstance(base, types.ModuleType) else None
        if not isinstance(node, ast.Name) or node.id in self.env:
            return None
        free = self.fn.__code__.co_freevars
        if node.id in free:
            try:
                return self.fn.__closure__[free.index(node.id)].cell_contents
            except ValueError:
                return None
        return self.fn.__globals__.get(node.id, getattr(builtins, node.id, None))

    def text(self, node: ast.AST) -> str | None:
        """A name written out, or held by a global constant."""
        got = node.value if isinstance(node, ast.Constant) else self.resolve(node)
        return got if isinstance(got, str) else None

    def ctx_call(self, node: ast.Call, name: str) -> None:
        """Check a call of one of ctx's methods."""
        for argument in node.args:
            self.value(argument)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse(node, f"ctx.{name} takes its arguments by place only")
        low, high = CTX[name] or (0, 0)
        if name in ("send", "send_ticks"):
            unit = "delay" if name == "send" else "ticks"
            kind = self.text(node.args[0]) if node.args else None
            if kind is None:
                self.refuse(
                    node, f"write the kind out: ctx.{name}({next(iter(self.kinds), 'kind')!r}, "
                    f"to, {unit}, ...)",
                )  # fmt: skip
            if kind not in self.kinds:
                self.refuse(node, f"there is no event {kind!r}; {nearest(kind, self.kinds)}")
            fields = [n for n, _ in self.kinds[kind].fields]
            if len(node.args) != 3 + len(fields):
                inside = ", ".join([repr(kind), "to", unit, *fields])
                self.refuse(
                    node, f"event {kind!r} has {len(fields)} field(s): write ctx.{name}({inside}), "
                    f"got {len(node.args)} arguments",
                )  # fmt: skip
            return
        if name == "near":
            grid = self.text(node.args[0]) if node.args else None
            if grid is None:
                self.refuse(node, "write the grid's name out: ctx.near('name', x, y, radius)")
            if grid not in self.grids:
                self.refuse(node, f"there is no grid {grid!r}; {nearest(grid, self.grids)}")
            shape = self.shape(self.grids[grid].column)
            if shape is not None and isinstance(shape[0], int):
                low = high = 2 + shape[0]
        if not low <= len(node.args) <= high:
            want = str(low) if low == high else f"{low} or {high}"
            self.refuse(node, f"ctx.{name} takes {want} argument(s), got {len(node.args)}")
