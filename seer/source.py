"""What a function is made of: its own code and that of all it calls; its syntax tree.

A fingerprint changes when anything changes that could change the machine code: the function's
byte code, that of every Python function it reaches through globals, closures and modules (in
other files too), and the constants captured on the way. Byte code rather than text, because it is
what will run even when the file has been edited since, and because a notebook has no file.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import linecache
import types
from typing import Any

import numpy as np

_CHAIN = {"LOAD_ATTR", "LOAD_METHOD"}
_START = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}


def fingerprint(*functions: Any) -> str:
    """Hex digest of functions and of all they call."""
    walk = _Walk()
    for fn in functions:
        walk.value(fn)
    return walk.digest.hexdigest()


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []  # ids in `seen` must stay taken

    def add(self, *parts: Any) -> None:
        self.digest.update(repr(parts).encode())

    def value(self, value: Any) -> None:
        """Anything that a function may refer to."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.add(type(value).__name__, value)
            return
        if id(value) in self.seen:
            self.add("again", self.seen[id(value)])
            return
        self.seen[id(value)] = len(self.seen)
        self.keep.append(value)
        inner = getattr(value, "py_func", None) or getattr(value, "fn", None)
        if isinstance(value, (staticmethod, classmethod)):
            self.value(value.__func__)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(inner, types.FunctionType):
            self.add(sorted((k, repr(v)) for k, v in getattr(value, "targetoptions", {}).items()))
            self.function(inner)
        elif isinstance(value, types.CodeType):
            self.code(value, {}, {})
        elif isinstance(value, types.MethodType):
            self.value(value.__func__)
            self.value(value.__self__)
        elif isinstance(value, np.generic):
            self.add(value.dtype.str, value.tobytes())
        elif isinstance(value, np.ndarray):
            self.add(value.dtype.str, value.shape)
            self.digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, (tuple, list)):
            self.add(type(value).__name__, len(value))
            for v in value:
                self.value(v)
        elif isinstance(value, dict):
            self.add("dict", len(value))
            for k, v in value.items():
                self.value(k)
                self.value(v)
        elif isinstance(value, (set, frozenset)):
            self.add("set", sorted(map(repr, value)))
        elif isinstance(value, types.ModuleType):
            self.add("module", value.__name__)
        else:
            named = value if hasattr(value, "__qualname__") else type(value)
            self.add("object", getattr(named, "__module__", ""), named.__qualname__)
            for key in ("_fields", "value", "targetdescr"):  # named tuples, enum members
                if isinstance(getattr(value, key, None), (int, float, str, tuple)):
                    self.add(key, getattr(value, key))

    def function(self, fn: types.FunctionType) -> None:
        names = {}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # not filled yet
                continue
        self.value(fn.__defaults__)
        self.value(fn.__kwdefaults__)
        self.code(fn.__code__, names, fn.__globals__)

    def code(self, code: types.CodeType, cells: dict[str, Any], names: dict[str, Any]) -> None:
        static, constants, references = _scan(code)
        self.digest.update(static)
        for const in constants:
            if isinstance(const, types.CodeType):
                self.code(const, cells, names)
            else:
                self.value(const)
        for chain in references:
            where = cells if chain[0] in cells else names
            if chain[0] not in where:
                continue
            base = where[chain[0]]
            for attribute in chain[1:]:
                if not isinstance(base, (types.ModuleType, type)):
                    break
                base = getattr(base, attribute, None)
            self.add("name", chain)
            self.value(base)


@functools.lru_cache(4096)
def _scan(code: types.CodeType) -> tuple[bytes, tuple[Any, ...], tuple[tuple[str, ...], ...]]:
    """What the code object alone tells: its bytes, its constants, the names that it looks up."""
    parts = (
        code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_code, code.co_names,
        code.co_varnames, code.co_freevars, code.co_cellvars,
    )  # fmt: skip
    chains: dict[tuple[str, ...], None] = {}
    chain: list[str] = []
    for ins in dis.get_instructions(code):
        if ins.opname in _CHAIN and chain:
            chain.append(ins.argval)
            continue
        if chain:
            chains[tuple(chain)] = None
        chain = [ins.argval] if ins.opname in _START else []
    if chain:
        chains[tuple(chain)] = None
    return repr(parts).encode(), code.co_consts, tuple(chains)


def references(code: types.CodeType) -> set[tuple[str, ...]]:
    """Names that code looks up, inner functions' too, each with the attributes taken from it."""
    _, constants, found = _scan(code)
    inner = [references(c) for c in constants if isinstance(c, types.CodeType)]
    return set(found).union(*inner)


def parameter_names(fn: Any) -> tuple[str, ...]:
    """The names of the positional parameters."""
    code = fn.__code__
    return tuple(code.co_varnames[: code.co_argcount])


_trees: dict[tuple[str, int], dict[tuple[str, int], ast.FunctionDef]] = {}


def function_tree(fn: types.FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of a function, or None when its source is not at hand or has changed."""
    code = fn.__code__
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if not lines:
        return None
    key = (code.co_filename, hash("".join(lines)))
    if key not in _trees:
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            tree = ast.Module([], [])
        table = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                table[node.name, first] = node
        _trees[key] = table
    found = _trees[key].get((code.co_name, code.co_firstlineno))
    if found is None or tuple(a.arg for a in found.args.args) != parameter_names(fn):
        return None
    return found
