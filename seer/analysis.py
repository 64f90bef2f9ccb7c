"""Checks on a model's methods, made when its class is made.

The methods' syntax trees are walked with the roles of their parameters (`ctx`, `s`, the entity,
the event) in mind, through plain Python helpers too. What is found wrong is a ModelError that
names the method, the line and the rule; what is found written becomes the mask by which the
engine publishes. A method without source (typed at a prompt) is not checked here and counts as
writing everything; the debug build and the plain form check the same rules as they run.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from typing import Any, NoReturn

from .errors import ModelError
from .rules import CTX, CTX_ROLE, ENTITY, EVENT, EVENT_ROLE, STATE, Calls, Role, nearest
from .source import function_tree, parameter_names
from .spec import BUILT_IN

_ENGINE_ONLY = {"draws": "the engine counts draws", "acted": "the engine notes who acts"}


class Analysis:
    """What the methods of a model do, as far as their source tells.

    ``methods`` maps a method's name to the columns it may write, or to None for all.
    """

    def __init__(self, methods: dict[str, set[str] | None]) -> None:
        self.methods = methods

    def writes(self, index: dict[str, int]) -> dict[str, int]:
        """Method name -> bit mask of the columns that it may write; all where unknown."""
        every = sum(1 << k for name, k in index.items() if name not in _ENGINE_ONLY)
        return {
            name: every if used is None else sum(1 << index[c] for c in used)
            for name, used in self.methods.items()
        }


def analyse(cls: Any) -> Analysis:
    """Check every method of a model.

    Raises:
        ModelError: a method breaks a rule; it names the method, the line and the rule.
    """
    from .declare import MethodDecl

    found: dict[str, set[str] | None] = {}
    unseen: list[str] = []
    for d in cls.of(MethodDecl).values():
        check_signature(cls, d)
        tree = function_tree(d.fn)
        if tree is None:
            unseen.append(d.name)
            found[d.name] = None
            continue
        walk = _Walk(cls, d)
        walk.function(d.fn, tree, dict(zip(parameter_names(d.fn), _roles(d), strict=True)))
        found[d.name] = None if walk.unknown else walk.written
    if unseen:
        warnings.warn(
            f"{cls.__name__}: its source is not at hand, so the rules of {', '.join(unseen)} are "
            "not checked here, and each counts as writing every column; a class in a file is "
            "checked when it is declared",
            stacklevel=4,
        )
    return Analysis(found)


def _roles(decl: Any) -> tuple[Role, ...]:
    return (CTX_ROLE, STATE, ENTITY, EVENT_ROLE)[: len(decl.parameters)]


def check_signature(cls: Any, d: Any) -> None:
    """A method takes exactly its parameters, by any names."""
    code = d.fn.__code__
    want = f"({', '.join(d.parameters)})"
    names = parameter_names(d.fn)
    plain = not (
        code.co_kwonlyargcount
        or d.fn.__defaults__
        or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    )
    text = ""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        text = "a method runs to its end: no generators, no async"
    elif names[:1] == ("self",):
        text = f"methods of a model take no self; expected the parameters {want}"
    elif len(names) != len(d.parameters) or not plain:
        got = inspect.signature(d.fn)
        text = f"a {d.what} has the parameters {want} and no others, got {got}"
    if text:
        raise _error(cls, d, d.line, text)


def _error(cls: Any, d: Any, line: int, text: str) -> ModelError:
    return ModelError(
        f"{cls.__name__}.{d.name} ({d.file}:{line}): {text}",
        model=cls.__name__, method=d.name, file=d.file, line=line,
    )  # fmt: skip


# ---- the walk --------------------------------------------------------------------------------


class _Walk(Calls):
    """One method of a model and the helpers that it passes ctx, s or parts of s to."""

    def __init__(self, cls: Any, decl: Any) -> None:
        from .declare import ColumnDecl, EventDecl, GridDecl, Param, TotalDecl

        self.cls, self.decl = cls, decl
        self.columns = cls.of(ColumnDecl)
        self.kinds, self.grids = cls.of(EventDecl), cls.of(GridDecl)
        self.names = {"p": cls.of(Param), "total": cls.of(TotalDecl)}
        self.published = [n for n, _, pub, _ in BUILT_IN if pub]
        self.published += [n for n, c in self.columns.items() if c.published]
        self.all_columns = [b[0] for b in BUILT_IN] + list(self.columns)
        self.written: set[str] = set()
        self.unknown = False
        self.stack: list[tuple[Any, dict[str, Role | None]]] = []
        self.env: dict[str, Role | None] = {}
        self.fn: Any = decl.fn

    def refuse(self, node: ast.AST, text: str) -> NoReturn:
        line = getattr(node, "lineno", self.decl.line)
        if self.stack:
            code = self.fn.__code__
            text = f"{text} [in {code.co_name}, {code.co_filename}:{line}, which it calls]"
            line = self.decl.line
        raise _error(self.cls, self.decl, line, text)

    def function(self, fn: Any, tree: ast.FunctionDef, env: dict[str, Role | None]) -> None:
        self.fn, self.env = fn, env
        for statement in tree.body:
            self.statement(statement)

    # ---- statements

    def statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            names = all(isinstance(target, ast.Name) for target in node.targets)
            role = self.value(node.value, "alias" if names else "value")
            for target in node.targets:
                self.target(target, role)
        elif isinstance(node, ast.AnnAssign):
            role = self.value(node.value, "alias") if node.value else None
            self.target(node.target, role)
        elif isinstance(node, ast.AugAssign):
            self.value(node.value)
            self.target(node.target, None)
        elif isinstance(node, ast.For):
            self.value(node.iter)
            self.target(node.target, None)
            self.block(node.body + node.orelse)
        elif isinstance(node, ast.Delete):
            self.refuse(node, "nothing can be deleted in a method")
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.refuse(node, "a method keeps its state in columns, not in global names")
        elif isinstance(node, ast.Return) and not self.stack:
            if node.value is not None and not (
                isinstance(node.value, ast.Constant) and node.value.value is None
            ):
                self.refuse(node, "a method returns nothing; write results to columns")
        elif isinstance(node, ast.expr):
            self.value(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.statement(child)

    def block(self, nodes: list[Any]) -> None:
        for node in nodes:
            self.statement(node)

    def target(self, node: ast.AST, role: Role | None) -> None:
        """Something that is assigned to."""
        if isinstance(node, ast.Name):
            if not self.stack and node.id in parameter_names(self.fn):
                what = dict(zip(parameter_names(self.fn), self.decl.parameters, strict=True))
                self.refuse(node, f"the parameter {what[node.id]!r} can't be assigned to")
            self.env[node.id] = role
        elif isinstance(node, (ast.Tuple, ast.List)):
            for part in node.elts:
                self.target(part, None)
        elif isinstance(node, ast.Starred):
            self.target(node.value, None)
        elif isinstance(node, ast.Attribute):
            base = self.value(node.value, "base")
            if base is None:
                return
            if base.what == "s" and node.attr in self.all_columns:
                self.refuse(node, f"write s.{node.attr}[i] = ..., the entity's own value")
            if base.what == "s":
                self.refuse(node, f"s.{node.attr} can't be assigned to; state lives in columns")
            where = {"p": "s.p", "total": "s.total", "seen": "s.seen"}.get(base.what, base.what)
            self.refuse(node, f"{where}.{node.attr} is read-only")
        elif isinstance(node, ast.Subscript):
            base = self.value(node.value, "base")
            if base is None:
                self.value(node.slice)
                return
            self.index(node, base)
            self.write(node, base)

    def write(self, node: ast.AST, role: Role) -> None:
        if role.what in ("column", "row"):
            if role.seen:
                self.refuse(
                    node, f"s.seen.{role.name} is what others see, written by the engine when it "
                    f"publishes; write s.{role.name}[i]",
                )  # fmt: skip
            if role.name in _ENGINE_ONLY:
                self.refuse(node, f"s.{role.name} is read-only: {_ENGINE_ONLY[role.name]}")
            self.written.add(role.name)

    # ---- expressions

    def value(self, node: ast.AST | None, use: str = "value") -> Role | None:
        """Walk an expression and tell what it stands for.

        ``use``: value, alias (assigned to a name), base (of a further attribute or index) or
        argument (of a call).
        """
        if isinstance(node, ast.Name):
            role = self.env.get(node.id)
            if role is not None and role.what == "column" and use == "value":
                self.refuse(node, f"a column is read by entity, as in s.{role.name}[i]")
            return role
        if isinstance(node, ast.Attribute):
            return self.attribute(node, use)
        if isinstance(node, ast.Subscript):
            base = self.value(node.value, "base")
            if base is None:
                self.value(node.slice)
                return None
            return self.index(node, base)
        if isinstance(node, ast.Call):
            self.call(node)
            return None
        if isinstance(node, ast.NamedExpr):
            role = self.value(node.value, "alias")
            self.target(node.target, role)
            return role
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            self.refuse(node, "functions can't be made in a method; define it beside the class")
        if isinstance(node, ast.comprehension):
            self.value(node.iter)
            self.target(node.target, None)
            for test in node.ifs:
                self.value(test)
            return None
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for gen in node.generators:
                self.value(gen)
        for child in ast.iter_child_nodes(node) if node is not None else ():
            if not isinstance(child, ast.comprehension):
                self.value(child)
        return None

    def attribute(self, node: ast.Attribute, use: str) -> Role | None:
        base = self.value(node.value, "base")
        name = node.attr
        if base is None:
            return None
        if base.what == "ctx":
            if name not in CTX:
                extra = "; results may not depend on it" if name == "world" else ""
                self.refuse(node, f"ctx has no {name!r}{extra}; {nearest(name, CTX)}")
            return Role("method", name) if CTX[name] else None
        if base.what == "event":
            fields = [n for n, _ in self.kinds[self.decl.kind].fields]
            if name not in (*EVENT, *fields):
                self.refuse(
                    node, f"event {self.decl.kind!r} has no {name!r}; "
                    f"{nearest(name, [*fields, *EVENT])}",
                )  # fmt: skip
            return None
        if base.what in ("p", "total"):
            known = self.names[base.what]
            if name not in known:
                what = {"p": "parameter", "total": "total"}[base.what]
                self.refuse(node, f"there is no {what} {name!r}; {nearest(name, known)}")
            return None
        if base.what == "seen":
            if name in self.columns and name not in self.published:
                line = self.columns[name].line
                self.refuse(
                    node, f"column {name!r} is not published, so others can't see it; write "
                    f"published=True where it is declared (line {line})",
                )  # fmt: skip
            if name not in self.published:
                self.refuse(
                    node, f"there is no published column {name!r}; {nearest(name, self.published)}"
                )
            role = Role("column", name, True)
        elif base.what == "s":
            if name in ("seen", "p", "total"):
                return Role(name)
            if name not in self.all_columns:
                if name in self.names["p"]:
                    self.refuse(node, f"{name!r} is a parameter; write s.p.{name}")
                if name in self.names["total"]:
                    self.refuse(node, f"{name!r} is a total; write s.total.{name}")
                self.refuse(node, f"there is no column {name!r}; {nearest(name, self.all_columns)}")
            role = Role("column", name)
            self.same_group(node, name)
        else:  # shape and the like of a column or row
            if name in ("fill", "sort", "partition", "put", "itemset"):
                self.write(node, base)
            return None
        if use == "value":
            dot = "seen." if role.seen else ""
            self.refuse(node, f"a column is read by entity, as in s.{dot}{name}[i]")
        return role

    def same_group(self, node: ast.AST, name: str) -> None:
        """A sweep over one group has no columns of another."""
        over = getattr(self.decl, "over", None)
        decl = self.columns.get(name)
        of = getattr(decl, "of", None)
        of = self.cls.agents if of == "<agents>" else of
        if over not in (None, "all") and of not in (None, "all") and of != over:
            self.refuse(node, f"column {name!r} belongs to group {of!r}; this runs over {over!r}")

    def index(self, node: ast.Subscript, base: Role) -> Role | None:
        """``base[...]``: whose row it is, and what is left."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base.what == "row":
            for part in parts:
                self.value(part)
            return None
        if base.what != "column":
            if base.what in ("method", "ctx", "s", "event", "p", "total", "seen"):
                self.refuse(node, f"{ast.unparse(node.value)} can't be indexed")
            return None
        roles = [self.value(part) for part in parts]
        if not base.seen and roles[0] != ENTITY:
            me = parameter_names(self.decl.fn)[2]
            hint = (
                f"read s.seen.{base.name}[...]"
                if base.name in self.published
                else f"publish {base.name!r} and read s.seen.{base.name}[...]"
            )
            self.refuse(
                node, f"s.{base.name}[{ast.unparse(parts[0])}]: an entity has only its own latest "
                f"values, s.{base.name}[{me}]; for those of others {hint}",
            )  # fmt: skip
        shape = self.shape(base.name)
        if shape is None:
            return Role("row", base.name, base.seen)
        if len(parts) - 1 > len(shape):
            have = f"rows of shape {shape}" if shape else "one value per entity"
            self.refuse(node, f"{len(parts)} indices for {base.name!r}, which has {have}")
        for part, size in zip(parts[1:], shape, strict=False):
            if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                self.refuse(node, "indices count from 0; negative ones are not supported")
            number = part.value if isinstance(part, ast.Constant) else 0
            if isinstance(number, int) and isinstance(size, int) and not 0 <= number < size:
                self.refuse(
                    node, f"index {number} is out of range: column {base.name!r} has rows of "
                    f"shape {shape}",
                )  # fmt: skip
        whole = len(parts) - 1 == len(shape) and not any(isinstance(p, ast.Slice) for p in parts)
        return None if whole else Role("row", base.name, base.seen)

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """The shape of a column's row as far as the declaration tells; None: not known."""
        if name not in self.columns:
            return ()
        shape = self.columns[name].shape
        if isinstance(shape, int):
            return (shape,)
        return tuple(shape) if isinstance(shape, (tuple, list)) else None
