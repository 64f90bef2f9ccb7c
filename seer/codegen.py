"""From a method to object code, by numba and LLVM. Imported only when something must be compiled.

numba types and lowers the method; the loop over rows and the C entry round it are written here, so
that a range costs one call. Helpers that are plain Python functions are compiled along.
"""

from __future__ import annotations

import ast
import os
import re
import types as pytypes
import warnings
from typing import Any, cast

# Vector forms of exp, sin and the like differ in the last bit from the scalar ones.
os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target

from . import layout as lay
from . import lowering as low
from . import lowering_ctx, lowering_rows  # noqa: F401  they register what they can lower
from .cache import Compiled
from .errors import CompileError
from .machine import target_machine
from .source import function_tree, references
from .spec import Kind, Method, Sweep

I8, I32, I64, PTR = low.I8, low.I32, low.I64, low.PTR
_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compile_method(owner: Sweep | Kind, layout: lay.Layout, symbol: str) -> Compiled:
    """Compile the method of a sweep or of a kind.

    Args:
        owner: the sweep or kind; it has a method.
        layout: of the model.
        symbol: name of the entry in the object code.

    Raises:
        CompileError: numba can't compile the method; names the line and what is wrong with it.
    """
    method = owner.method
    assert method is not None
    state = low.StateType(layout, _home(owner, layout))
    arguments: list[types.Type] = [low.CtxType(layout), state, types.int64]
    if isinstance(owner, Kind):
        arguments.append(low.EventType(layout, layout.kinds[_index(layout, owner.name)]))
    if getattr(numba.core.config, "USING_SVML", False):
        warnings.warn(
            "numba was imported with Intel's vector functions, whose last bits differ; for equal "
            "bits import seer's model first, or set NUMBA_DISABLE_INTEL_SVML=1",
            stacklevel=2,
        )
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    options = {**_OPTIONS, "boundscheck": layout.debug, "forceinline": True}
    helpers = _Localizer(layout.debug)
    compiled = numba.njit(**options)(helpers.function(cast("pytypes.FunctionType", method.fn)))
    try:
        compiled.compile(tuple(arguments))
    except Exception as e:
        raise _compile_error(method, e) from e
    result = compiled.overloads[tuple(arguments)]
    if result.signature.return_type not in (types.none,):
        raise CompileError(
            f"{method.name} ({method.file}:{method.line}): a method returns nothing, this returns "
            f"{result.signature.return_type}",
            method=method.name, file=method.file, line=method.line,
        )  # fmt: skip
    context = cpu_target.target_context
    library = context.codegen().create_library(symbol)
    module = library.create_ir_module(symbol)
    if isinstance(owner, Kind):
        _handler_entry(context, module, result.fndesc, symbol, arguments)
    else:
        _sweep_entry(context, module, result.fndesc, symbol, arguments, owner, layout)
    made = [o.library for d in helpers.copies.values() for o in d.overloads.values()]
    compiled_method = _emit(module, [result.library, *made], symbol)
    if "numba_gil_ensure" in compiled_method.needs:
        raise _interpreter_error(method)
    return compiled_method


def _home(owner: Sweep | Kind, layout: lay.Layout) -> int:
    """The group that a method runs for; -1 where it may be any."""
    name = owner.group.name if isinstance(owner, Sweep) else "all"
    return layout.groups.index(name) if name in layout.groups else -1


def _index(layout: lay.Layout, kind: str) -> int:
    return layout.kind_by_name[kind].index


# ---- entries ---------------------------------------------------------------------------------


def _call(context: Any, builder: Any, fndesc: Any, arguments: list[Any], values: list[Any]) -> Any:
    fn = context.declare_function(builder.module, fndesc)
    status, _ = context.call_conv.call_function(builder, fn, types.none, arguments, values)
    return status.is_ok


def _entry(module: Any, layout: lay.Layout, symbol: str, kinds: list[Any]) -> tuple[Any, Any]:
    fn = ir.Function(module, ir.FunctionType(I32, kinds), symbol)
    fn.args[0].add_attribute("noalias")
    fn.args[0].attributes.dereferenceable = lay.CTX_BYTES
    return fn, ir.IRBuilder(fn.append_basic_block("entry"))


def _handler_entry(
    context: Any, module: Any, fndesc: Any, symbol: str, arguments: list[Any]
) -> None:
    """``int32_t fn(ctx, entity, event, payload)``."""
    layout = arguments[0].layout
    fn, builder = _entry(module, layout, symbol, [PTR, I64, PTR, PTR])
    ctx, entity, event, payload = fn.args
    event.attributes.dereferenceable = lay.EVENT_BYTES
    e = cgutils.create_struct_proxy(arguments[3])(context, builder)
    e.event, e.payload = event, payload
    good = _call(context, builder, fndesc, arguments, [ctx, ctx, entity, e._getvalue()])
    builder.ret(builder.zext(good, I32))


def _sweep_entry(
    context: Any, module: Any, fndesc: Any, symbol: str, arguments: list[Any], sweep: Sweep,
    layout: lay.Layout,
) -> None:  # fmt: skip
    """``int32_t fn(ctx, first, last)``: the rows of a range, one after another."""
    fn, builder = _entry(module, layout, symbol, [PTR, I64, I64])
    ctx, first, last = fn.args
    head, body, work, after, out, bad = (
        fn.append_basic_block(n) for n in ("head", "body", "work", "after", "out", "bad")
    )
    entry = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    i = builder.phi(I64)
    i.add_incoming(first, entry)
    builder.cbranch(builder.icmp_signed("<", i, last), body, out)

    builder.position_at_end(body)
    if sweep.include == "all":
        builder.branch(work)
    else:
        column = {"alive": 0, "acted": 1}[sweep.include]
        base = low.column_base(builder, ctx, layout, column, False)
        flag = builder.load(builder.gep(base, [i], inbounds=True))
        if column == 0:
            low.column_memory(builder, flag, layout, 0)
        else:
            low.invariant(builder, flag)
        builder.cbranch(builder.icmp_unsigned("!=", flag, ir.Constant(I8, 0)), work, after)

    builder.position_at_end(work)
    place = builder.gep(ctx, [ir.Constant(I64, lay.CTX_ENTITY)], inbounds=True)
    place = builder.bitcast(place, I32.as_pointer())
    low.ctx_memory(builder, builder.store(builder.trunc(i, I32), place), layout)
    good = _call(context, builder, fndesc, arguments, [ctx, ctx, i])
    builder.cbranch(good, after, bad)

    builder.position_at_end(after)
    i.add_incoming(builder.add(i, ir.Constant(I64, 1), flags=("nsw",)), after)
    builder.branch(head)
    builder.position_at_end(out)
    builder.ret(ir.Constant(I32, 1))
    builder.position_at_end(bad)
    builder.ret(ir.Constant(I32, 0))


def _emit(module: Any, libraries: list[Any], symbol: str) -> Compiled:
    """Link the method into its entry, optimize, and produce object code."""
    machine = target_machine()
    final = llvm.parse_assembly(str(module))
    final.data_layout = str(machine.target_data)
    final.triple = llvm.get_process_triple()
    final.link_in(libraries[0]._get_module_for_linking(), preserve=True)
    final = _tie_recursion(final, libraries[1:])
    for f in final.functions:
        if not f.is_declaration and f.name != symbol:
            f.linkage = "internal"
    for g in final.global_variables:
        if not g.is_declaration and not g.name.startswith("llvm."):
            g.linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(final, passes)
    final.verify()
    outside = (v for v in (*final.functions, *final.global_variables) if v.is_declaration)
    needs = tuple(v.name for v in outside if not v.name.startswith("llvm."))
    return Compiled(symbol, needs, bytes(machine.emit_object(final)))


def _tie_recursion(module: Any, helpers: list[Any]) -> Any:
    """Give functions that call themselves their own address.

    numba leaves it to a run-time linker, which object code that is loaded without numba lacks.
    """
    mark = ".numba.unresolved$"
    wanted = {g.name[len(mark) :] for g in module.global_variables if g.name.startswith(mark)}
    if not wanted:
        return module
    for helper in helpers:  # where it was inlined its own code has been dropped
        part = helper._get_module_for_linking().clone()
        for f in part.functions:
            if f.name in wanted and not f.is_declaration:
                f.linkage = "external"  # or the linker finds that nobody asks for it
        module.link_in(part)
    text = re.sub(
        rf'^(@"?{re.escape(mark)}([^" ]+)"?) = external (?:\w+ )*global ptr.*$',
        r'\1 = private constant ptr @"\2"', str(module), flags=re.M,
    )  # fmt: skip
    return llvm.parse_assembly(text)


# ---- helpers -----------------------------------------------------------------------------------


class _Localizer:
    """Copies functions so that the plain Python helpers they call are compiled with them."""

    def __init__(self, debug: bool) -> None:
        self.options = {**_OPTIONS, "boundscheck": debug}
        self.copies: dict[Any, Any] = {}

    def function(self, fn: pytypes.FunctionType) -> pytypes.FunctionType:
        """A copy of a function whose global names and cells hold compiled helpers."""
        copy_of, names = self.copy(fn)
        self.fill(fn, copy_of, names)
        return copy_of

    def copy(self, fn: pytypes.FunctionType) -> tuple[pytypes.FunctionType, dict[str, Any]]:
        """A copy with globals and cells of its own, which hold what the original's hold."""
        names = dict(fn.__globals__)
        cells = []
        for cell in fn.__closure__ or ():
            try:
                cells.append(pytypes.CellType(cell.cell_contents))
            except ValueError:
                cells.append(pytypes.CellType())
        made = pytypes.FunctionType(
            fn.__code__, names, fn.__name__, fn.__defaults__, tuple(cells) or None
        )
        made.__kwdefaults__ = fn.__kwdefaults__
        made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
        return made, names

    def fill(self, fn: Any, made: Any, names: dict[str, Any]) -> None:
        """Put compiled helpers in a copy's globals and cells."""
        for cell in made.__closure__ or ():
            try:
                cell.cell_contents = self.value(cell.cell_contents)
            except ValueError:  # not filled in the original either
                continue
        for base, *chain in references(fn.__code__):
            if base not in names:
                continue
            value = names[base]
            if isinstance(value, pytypes.ModuleType) and chain:
                names[base] = self.module(value, chain)
            else:
                names[base] = self.value(value)

    def value(self, value: Any) -> Any:
        """A plain function becomes a compiled one; all else stays."""
        if not isinstance(value, pytypes.FunctionType) or _known(value):
            return value
        if value not in self.copies:
            made, names = self.copy(value)
            # Known before its own names are looked at, for helpers that call themselves.
            self.copies[value] = numba.njit(**self.options)(made)
            self.fill(value, made, names)
        return self.copies[value]

    def module(self, module: pytypes.ModuleType, chain: list[str]) -> pytypes.ModuleType:
        """A module, or a stand-in for it when the attribute is a plain Python helper."""
        value = getattr(module, chain[0], None)
        if isinstance(value, pytypes.ModuleType) and len(chain) > 1:
            new: Any = self.module(value, chain[1:])
        else:
            new = self.value(value)
        if new is value:
            return module
        stand_in = pytypes.ModuleType(module.__name__)
        stand_in.__dict__.update(module.__dict__)
        stand_in.__dict__[chain[0]] = new
        return stand_in


def _known(fn: Any) -> bool:
    """Whether numba has its own way to call this function."""
    try:
        return cpu_target.typing_context.resolve_value_type(fn) is not None
    except Exception:
        return False


# ---- errors ----------------------------------------------------------------------------------

_NOISE = re.compile(
    r"^(Failed in|No implementation|Invalid use of|- Resolution failure|Resolution failure|"
    r"During:|Enable logging|There (is|are) \d|This error|Known signatures|Exception thrown|"
    r"- Of which|In definition|Use of unsupported|Overload (of|in)|Rejected as|With argument)"
)


def _interpreter_error(method: Method) -> CompileError:
    """A method that would wait for Python's lock, which a step does not give away."""
    line = method.line
    tree = function_tree(cast("pytypes.FunctionType", method.fn))
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            line = node.lineno
            break
    return CompileError(
        f"{method.name} ({method.file}:{line}): print, or another call that needs the interpreter, "
        "can't be compiled; remove it, or run the model with compiled=False",
        method=method.name, file=method.file, line=line,
    )  # fmt: skip


def _compile_error(method: Method, e: Exception) -> CompileError:
    """What numba said, cut to the line and the reason."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(e))
    place = re.findall(r'File "([^"]+)", line (\d+)', text)
    file, line = method.file, method.line
    if place:
        file, line = place[-1][0], int(place[-1][1])
        if file.startswith("<") or not os.path.isabs(file):
            file = method.file
    lines = [s.strip() for s in text.splitlines() if s.strip()]
    inside = [s for s in lines if not _NOISE.match(s) and s.strip("-^~<> ")]
    inside = [s for s in inside if not s.startswith(("File ", "def ", "@"))]
    marked = re.search(r"seer: (.+)", text)
    reason = marked[1] if marked else next(iter(inside), type(e).__name__)
    error = CompileError(
        f"{method.name} ({file}:{line}): can't be compiled: {reason}",
        method=method.name, file=file, line=line,
    )  # fmt: skip
    error.__dict__["details"] = text
    return error
