"""The numba types behind `ctx`, `s` and `e`, and the machine code for what methods do with them.

`ctx`, `s`, `s.seen`, `s.p` and `s.total` are all the native `seer_ctx` pointer, seen through
types that know the model's layout, so attribute access is a load at a fixed offset. Loads of what
stays as it is while a method runs are marked invariant, and columns are told apart by alias
scopes; with these two LLVM hoists and vectorizes as it would for plain arrays.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.datamodel import models
from numba.core.extending import register_model
from numba.core.imputils import (
    lower_builtin,
    lower_getattr_generic,
)
from numba.core.typing import signature
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
)
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from . import layout as L
from . import math as seer_math
from .rules import nearest

I8, I32, I64, F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
PTR = I8.as_pointer()
_TYPES = {"int": types.int64, "float": types.float64, "bool": types.boolean}
#: ctx method -> C function for those that take ctx alone.
_DRAWS = {
    "uniform": ("seer_uniform", F64, types.float64),
    "normal": ("seer_normal", F64, types.float64),
    "bits": ("seer_bits", I64, types.uint64),
}


def native(dtype: str) -> types.Type:
    """The numba type of an element as it is stored."""
    return from_dtype(np.dtype(dtype))


def widened(dtype: str) -> types.Type:
    """The type that an element has when it is read: float64, int64 or uint64."""
    if dtype[0] == "f":
        return types.float64
    return types.uint64 if dtype == "u8" else types.int64


def refusal(text: str) -> Exception:
    """A rule of models is broken; the mark lets the compiler find the text in what numba says."""
    return errors.TypingError(f"seer: {text}")


# ---- types ---------------------------------------------------------------------------------


class _OfModel(types.Type):
    """A type that belongs to one layout."""

    what = ""

    def __init__(self, layout: L.Layout) -> None:
        self.layout = layout
        super().__init__(f"seer.{self.what}<{layout.digest}>")


class CtxType(_OfModel):
    what = "ctx"


class StateType(_OfModel):
    what = "s"


class SeenType(_OfModel):
    what = "seen"


class ParamsType(_OfModel):
    what = "p"


class TotalsType(_OfModel):
    what = "total"


class ColumnType(types.Type):
    def __init__(self, layout: L.Layout, column: L.ColumnLayout, seen: bool) -> None:
        self.layout, self.column, self.seen = layout, column, seen
        where = "seen" if seen else "s"
        super().__init__(f"seer.{where}.{column.name}<{layout.digest}>")

    @property
    def label(self) -> str:
        return f"s.seen.{self.column.name}" if self.seen else f"s.{self.column.name}"


class EventType(types.Type):
    def __init__(self, layout: L.Layout, kind: L.KindLayout) -> None:
        self.layout, self.kind = layout, kind
        super().__init__(f"seer.e.{kind.name}<{layout.digest}>")


for _type in (CtxType, StateType, SeenType, ParamsType, TotalsType):
    register_model(_type)(models.OpaqueModel)


@register_model(ColumnType)
class _ColumnModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("base", types.voidptr), ("ctx", types.voidptr)])


@register_model(EventType)
class _EventModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("event", types.voidptr), ("payload", types.voidptr)])


# ---- loads and stores ------------------------------------------------------------------------


def invariant(builder: Any, load: Any, dereferenceable: int = 0) -> Any:
    """Mark a load of what can't change while a method runs."""
    module = builder.module
    load.set_metadata("invariant.load", module.add_metadata([]))
    if dereferenceable:
        size = module.add_metadata([ir.Constant(I64, dereferenceable)])
        load.set_metadata("dereferenceable", size)
    return load


def load_at(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    """Load of a field at a fixed offset."""
    place = builder.gep(base, [ir.Constant(I64, offset)], inbounds=True)
    return builder.load(builder.bitcast(place, kind.as_pointer()))


def ctx_field(builder: Any, ctx: Any, offset: int, kind: Any, dereferenceable: int = 0) -> Any:
    """A field of seer_ctx that stays as it is while a method runs."""
    return invariant(builder, load_at(builder, ctx, offset, kind), dereferenceable)


def own_memory(builder: Any, instruction: Any, which: int, count: int) -> Any:
    """Tell LLVM that columns do not overlap: ``which`` is one of ``count`` separate memories."""
    module = builder.module
    domain = module.add_metadata(["seer"])
    scopes = [module.add_metadata([f"seer.{k}", domain]) for k in range(count)]
    instruction.set_metadata("alias.scope", module.add_metadata([scopes[which]]))
    others = scopes[:which] + scopes[which + 1 :]
    instruction.set_metadata("noalias", module.add_metadata(others))
    return instruction


def column_memory(builder: Any, instruction: Any, layout: L.Layout, column: int) -> Any:
    """The memory of one column's latest values."""
    return own_memory(builder, instruction, column, len(layout.columns) + 1)


def ctx_memory(builder: Any, instruction: Any, layout: L.Layout) -> Any:
    """The memory of seer_ctx."""
    return own_memory(builder, instruction, len(layout.columns), len(layout.columns) + 1)


def column_base(builder: Any, ctx: Any, layout: L.Layout, column: int, seen: bool) -> Any:
    """The pointer that an entity id indexes."""
    size = 16 * len(layout.columns)
    table = ctx_field(builder, ctx, L.CTX_COLUMNS, PTR, size)
    return ctx_field(builder, table, 8 * (2 * column + seen), PTR)


# ---- attributes ----------------------------------------------------------------------------


class _Attributes(AttributeTemplate):
    """Typing of ``x.attr``."""

    def generic_resolve(self, typ: Any, attr: str) -> Any:
        found = attribute_type(typ, attr)
        if isinstance(found, str):
            raise refusal(found)
        if isinstance(found, type):
            return types.BoundFunction(found, typ)
        return found


def attribute_type(typ: Any, attr: str) -> Any:
    """The type of an attribute; a template for a method; text for an error."""
    layout: L.Layout = typ.layout
    if isinstance(typ, CtxType):
        values = {"now": types.int64, "time": types.float64, "step": types.int64}
        known = {**values, **_METHODS}
        return known.get(attr) or f"ctx has no {attr!r}; {nearest(attr, known)}"
    if isinstance(typ, StateType):
        parts = {"seen": SeenType, "p": ParamsType, "total": TotalsType}
        if attr in parts:
            return parts[attr](layout)
        if attr in layout.column_by_name:
            return ColumnType(layout, layout.column_by_name[attr], False)
        return f"there is no column {attr!r}; {nearest(attr, layout.column_by_name)}"
    if isinstance(typ, SeenType):
        published = {n: c for n, c in layout.column_by_name.items() if c.published}
        if attr in published:
            return ColumnType(layout, published[attr], True)
        return f"there is no published column {attr!r}; {nearest(attr, published)}"
    if isinstance(typ, ParamsType):
        params = dict(layout.params)
        if attr in params:
            return _TYPES[params[attr]]
        return f"there is no parameter {attr!r}; {nearest(attr, params)}"
    if isinstance(typ, TotalsType):
        if attr in layout.totals:
            return types.float64
        return f"there is no total {attr!r}; {nearest(attr, layout.totals)}"
    fields = dict(typ.kind.fields)
    if attr in fields:
        return widened(fields[attr])
    if attr in ("time", "source", "sequence", "round"):
        return types.int64
    return f"event {typ.kind.name!r} has no {attr!r}; {nearest(attr, fields)}"


for _type in (CtxType, StateType, SeenType, ParamsType, TotalsType, EventType):
    infer_getattr(type(f"_{_type.__name__}Attributes", (_Attributes,), {"key": _type}))


@lower_getattr_generic(CtxType)
def _ctx_attribute(context: Any, builder: Any, typ: Any, ctx: Any, attr: str) -> Any:
    if attr == "step":
        return ctx_field(builder, ctx, L.CTX_STEP, I64)
    now = ctx_field(builder, ctx, L.CTX_NOW, I64)
    if attr == "now":
        return now
    seconds = ctx_field(builder, ctx, L.CTX_SECONDS, F64)
    return builder.fmul(builder.sitofp(now, F64), seconds)


@lower_getattr_generic(StateType)
@lower_getattr_generic(SeenType)
def _state_attribute(context: Any, builder: Any, typ: Any, ctx: Any, attr: str) -> Any:
    kind = attribute_type(typ, attr)
    if not isinstance(kind, ColumnType):
        return ctx
    out = cgutils.create_struct_proxy(kind)(context, builder)
    out.base = column_base(builder, ctx, typ.layout, kind.column.index, kind.seen)
    out.ctx = ctx
    return out._getvalue()


@lower_getattr_generic(ParamsType)
def _param(context: Any, builder: Any, typ: Any, ctx: Any, attr: str) -> Any:
    names = [n for n, _ in typ.layout.params]
    table = ctx_field(builder, ctx, L.CTX_PARAMS, PTR, 8 * len(names))
    kind = dict(typ.layout.params)[attr]
    stored = F64 if kind == "float" else I64
    value = ctx_field(builder, table, 8 * names.index(attr), stored)
    if kind == "bool":
        return builder.icmp_unsigned("!=", value, ir.Constant(I64, 0))
    return value


@lower_getattr_generic(TotalsType)
def _total(context: Any, builder: Any, typ: Any, ctx: Any, attr: str) -> Any:
    table = ctx_field(builder, ctx, L.CTX_TOTALS, PTR, 8 * len(typ.layout.totals))
    return ctx_field(builder, table, 8 * typ.layout.totals.index(attr), F64)


def widen(context: Any, builder: Any, dtype: str, raw: Any) -> Any:
    """A stored element as methods see it."""
    return context.cast(builder, raw, native(dtype), widened(dtype))


@lower_getattr_generic(EventType)
def _event_attribute(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    e = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    offset = 0
    for name, dtype in typ.kind.fields:
        if name == attr:
            kind = context.get_value_type(native(dtype))
            raw = invariant(builder, load_at(builder, e.payload, offset, kind))
            raw.align = 1  # fields are packed
            return widen(context, builder, dtype, raw)
        offset += np.dtype(dtype).itemsize
    place, size = {
        "time": (L.EVENT_TIME, 64), "source": (L.EVENT_SOURCE, 32),
        "sequence": (L.EVENT_SEQUENCE, 32), "round": (L.EVENT_ROUND, 16),
    }[attr]  # fmt: skip
    raw = invariant(builder, load_at(builder, e.event, place, ir.IntType(size)))
    return raw if size == 64 else builder.zext(raw, I64)


# ---- rows and elements -----------------------------------------------------------------------


def split_index(typ: ColumnType, index: Any) -> tuple[list[Any], list[Any]] | None:
    """The types of the leading whole numbers and of the rest of an index."""
    parts = list(index) if isinstance(index, types.BaseTuple) else [index]
    lead = 0
    while lead < len(parts) and isinstance(types.unliteral(parts[lead]), types.Integer):
        lead += 1
    if lead == 0 or len(parts) > 1 + len(typ.column.shape):
        return None
    return parts[:lead], parts[lead:]


def row_type(typ: ColumnType, lead: int) -> types.Array:
    """The array that is left of a row after ``lead`` whole numbers."""
    ndim = 1 + len(typ.column.shape) - lead
    readonly = typ.seen or typ.column.name in ("acted", "draws")
    return types.Array(native(typ.column.dtype), ndim, "C", readonly=readonly)


def bad_index(typ: ColumnType, index: Any) -> Exception:
    shape = typ.column.shape
    have = f"rows of shape {shape}" if shape else "one value per entity"
    return refusal(
        f"{typ.label}[{index}]: expected an entity and at most {len(shape)} indices after it; it "
        f"has {have}"
    )


def rest_tuple(rest: list[Any]) -> types.Type:
    return rest[0] if len(rest) == 1 else types.Tuple(rest)


@infer_global(operator.getitem)
class _ColumnGet(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) != 2 or not isinstance(args[0], ColumnType):
            return None
        typ, index = args
        found = split_index(typ, index)
        if found is None:
            raise bad_index(typ, index)
        lead, rest = found
        if len(lead) == 1 + len(typ.column.shape):
            return signature(widened(typ.column.dtype), typ, index)
        row = row_type(typ, len(lead))
        if not rest:
            return signature(row, typ, index)
        inner = self.context.resolve_function_type(operator.getitem, (row, rest_tuple(rest)), {})
        return None if inner is None else signature(inner.return_type, typ, index)


@infer_global(operator.setitem)
class _ColumnSet(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) != 3 or not isinstance(args[0], ColumnType):
            return None
        typ, index, value = args
        found = split_index(typ, index)
        if found is None:
            raise bad_index(typ, index)
        if typ.seen:
            raise refusal(
                f"{typ.label} is written by the engine; write s.{typ.column.name}"
            )
        if typ.column.name in ("acted", "draws"):
            raise refusal(f"{typ.label} is read-only")
        value = types.unliteral(value)
        lead, rest = found
        if len(lead) == 1 + len(typ.column.shape):
            if not isinstance(value, (types.Integer, types.Float, types.Boolean)):
                raise refusal(f"{typ.label}[...] = {value}: expected a number")
            return signature(types.none, typ, index, value)
        row = row_type(typ, len(lead))
        where = rest_tuple(rest) if rest else types.slice2_type
        inner = self.context.resolve_function_type(operator.setitem, (row, where, value), {})
        return None if inner is None else signature(types.none, typ, index, value)


def index_values(context: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """(type, value) of the parts of an index."""
    if isinstance(kind, types.BaseTuple):
        return list(zip(kind, cgutils.unpack_tuple(builder, value), strict=True))
    return [(kind, value)]


def check(context: Any, builder: Any, good: Any, text: str) -> None:
    """In the debug build: raise IndexError unless good."""
    with builder.if_then(builder.not_(good), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, (text,))


def place(context: Any, builder: Any, typ: ColumnType, value: Any, lead: list[Any]) -> Any:
    """Pointer to the element or the part of a row that the leading whole numbers name."""
    col = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    c = typ.column
    numbers = [context.cast(builder, v, t, types.int64) for t, v in lead]
    sizes = [c.row_bytes]
    for size in c.shape:
        sizes.append(sizes[-1] // size)
    if typ.layout.debug:
        first, end = c.bounds or (0, 0)
        low, high = ir.Constant(I64, first), ir.Constant(I64, end)
        i = numbers[0]
        inside = builder.and_(
            builder.icmp_signed(">=", i, low), builder.icmp_signed("<", i, high)
        )
        check(context, builder, inside, f"{typ.label}: entity out of range")
        if not typ.seen:
            me = builder.zext(load_at(builder, col.ctx, L.CTX_ENTITY, I32), I64)
            own = builder.icmp_signed("==", i, me)
            check(context, builder, own, f"{typ.label}: another entity's latest value")
        for number, size in zip(numbers[1:], c.shape, strict=False):
            good = builder.icmp_unsigned("<", number, ir.Constant(I64, size))
            check(context, builder, good, f"{typ.label}: index out of range")
    offset = None
    for number, size in zip(numbers, sizes, strict=False):
        part = builder.mul(number, ir.Constant(I64, size), flags=("nsw",))
        offset = part if offset is None else builder.add(offset, part, flags=("nsw",))
    return builder.gep(col.base, [offset], inbounds=True)


def row(context: Any, builder: Any, typ: ColumnType, pointer: Any, lead: int) -> Any:
    """A view of a row, or of what is left of it."""
    kind = row_type(typ, lead)
    shape = typ.column.shape[lead - 1 :]
    strides = []
    step = typ.column.itemsize
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    out = make_array(kind)(context, builder)
    item = context.get_data_type(kind.dtype)
    populate_array(
        out,
        data=builder.bitcast(pointer, item.as_pointer()),
        shape=[context.get_constant(types.intp, n) for n in shape],
        strides=[context.get_constant(types.intp, n) for n in strides],
        itemsize=context.get_constant(types.intp, typ.column.itemsize),
        meminfo=None,
    )
    return kind, out._getvalue()


def pack_rest(context: Any, builder: Any, rest: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(rest) == 1:
        return rest[0]
    kind = types.Tuple([t for t, _ in rest])
    return kind, context.make_tuple(builder, kind, [v for _, v in rest])


@lower_builtin(operator.getitem, ColumnType, types.Any)
def _column_get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ, index = sig.args
    parts = index_values(context, builder, index, args[1])
    lead, rest = (len(p) for p in split_index(typ, index))  # type: ignore[union-attr]
    pointer = place(context, builder, typ, args[0], parts[:lead])
    c = typ.column
    if lead == 1 + len(c.shape):
        kind = context.get_value_type(native(c.dtype))
        load = builder.load(builder.bitcast(pointer, kind.as_pointer()))
        if typ.seen or c.name == "acted":
            invariant(builder, load)
        else:
            column_memory(builder, load, typ.layout, c.index)
        return widen(context, builder, c.dtype, load)
    kind, view = row(context, builder, typ, pointer, lead)
    if not rest:
        return view
    where, value = pack_rest(context, builder, parts[lead:])
    inner = context.typing_context.resolve_function_type(operator.getitem, (kind, where), {})
    return context.get_function(operator.getitem, inner)(builder, (view, value))


@lower_builtin(operator.setitem, ColumnType, types.Any, types.Any)
def _column_set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ, index, value = sig.args
    parts = index_values(context, builder, index, args[1])
    lead, rest = (len(p) for p in split_index(typ, index))  # type: ignore[union-attr]
    pointer = place(context, builder, typ, args[0], parts[:lead])
    c = typ.column
    if lead == 1 + len(c.shape):
        stored = context.cast(builder, args[2], value, native(c.dtype))
        store = builder.store(stored, builder.bitcast(pointer, stored.type.as_pointer()))
        column_memory(builder, store, typ.layout, c.index)
        return context.get_dummy_value()
    kind, view = row(context, builder, typ, pointer, lead)
    if rest:
        where, at = pack_rest(context, builder, parts[lead:])

        def assign(view: Any, at: Any, value: Any) -> None:
            view[at] = value

        inner = signature(types.none, kind, where, value)
        context.compile_internal(builder, assign, inner, (view, at, args[2]))
    else:

        def fill(view: Any, value: Any) -> None:
            view[:] = value

        inner = signature(types.none, kind, value)
        context.compile_internal(builder, fill, inner, (view, args[2]))
    return context.get_dummy_value()


# ---- methods of ctx ------------------------------------------------------------------------


def core(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call a function of the native core."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    fn = cgutils.get_or_insert_function(builder.module, kind, name)
    fn.attributes.add("nounwind")
    return builder.call(fn, arguments)


class _Method(AbstractTemplate):
    prefer_literal = True

    @property
    def layout(self) -> L.Layout:
        return self.this.layout  # type: ignore[attr-defined, no-any-return]

    def text(self, args: Any, what: str) -> str:
        if not args or not isinstance(args[0], types.StringLiteral):
            raise refusal(f"write the {what}'s name out, as text")
        return str(args[0].literal_value)

    def numbers(self, name: str, args: Any, real: bool = True) -> None:
        allowed = (types.Integer, types.Float, types.Boolean) if real else (types.Integer,)
        for a in args:
            if not isinstance(types.unliteral(a), allowed):
                want = "a number" if real else "a whole number"
                raise refusal(f"ctx.{name}: expected {want}, got {types.unliteral(a)}")

    def count(self, name: str, args: Any, want: int) -> None:
        if len(args) != want:
            raise refusal(f"ctx.{name} takes {want} argument(s), got {len(args)}")


class _Send(_Method):
    key = "seer.ctx.send"
    name = "send"

    def generic(self, args: Any, kws: Any) -> Any:
        kind = self.text(args, "kind")
        known = self.layout.kind_by_name
        if kind not in known:
            raise refusal(f"there is no event {kind!r}; {nearest(kind, known)}")
        self.count(self.name, args, 3 + len(known[kind].fields))
        self.numbers(self.name, args[1:2], real=False)
        self.numbers(self.name, args[2:3], real=self.name == "send")
        self.numbers(self.name, args[3:])
        return signature(types.boolean, args[0], *map(types.unliteral, args[1:]), recvr=self.this)


class _SendTicks(_Send):
    key = "seer.ctx.send_ticks"
    name = "send_ticks"


class _Near(_Method):
    key = "seer.ctx.near"

    def generic(self, args: Any, kws: Any) -> Any:
        name = self.text(args, "grid")
        known = dict(self.layout.grids)
        if name not in known:
            raise refusal(f"there is no grid {name!r}; {nearest(name, known)}")
        self.count("near", args, 2 + known[name])
        self.numbers("near", args[1:])
        return signature(types.int64, args[0], *map(types.unliteral, args[1:]), recvr=self.this)


class _Found(_Method):
    key = "seer.ctx.found"
    result: Any = types.int64
    arguments = 1

    def generic(self, args: Any, kws: Any) -> Any:
        name = str(self.key).rsplit(".", 1)[-1]
        self.count(name, args, self.arguments)
        self.numbers(name, args, real=False)
        return signature(self.result, *map(types.unliteral, args), recvr=self.this)


class _Integers(_Found):
    key = "seer.ctx.integers"


class _Fail(_Found):
    key = "seer.ctx.fail"
    result = types.none


def _draw_template(name: str) -> Any:
    body = {"key": f"seer.ctx.{name}", "result": _DRAWS[name][2], "arguments": 0}
    return type(f"_{name.title()}", (_Found,), body)


_METHODS: dict[str, Any] = {
    "send": _Send, "send_ticks": _SendTicks, "near": _Near, "found": _Found,
    "integers": _Integers, "fail": _Fail, **{n: _draw_template(n) for n in _DRAWS},
}  # fmt: skip


def _lower_send(context: Any, builder: Any, sig: Any, args: Any, seconds: bool) -> Any:
    ctx_type = sig.args[0]
    kind = ctx_type.layout.kind_by_name[sig.args[1].literal_value]
    ctx, _, to, when, *values = args
    to = context.cast(builder, to, sig.args[2], types.int64)
    when = context.cast(
        builder, when, sig.args[3], types.float64 if seconds else types.int64
    )
    room = ir.ArrayType(I64, (L.WIDE_BYTES if kind.wide else 8) // 8)
    buffer = cgutils.alloca_once(builder, room)
    builder.store(ir.Constant(room, None), buffer)
    raw = builder.bitcast(buffer, PTR)
    offset = 0
    for (_, dtype), value, typ in zip(kind.fields, values, sig.args[4:], strict=True):
        stored = context.cast(builder, value, typ, native(dtype))
        at = builder.gep(raw, [ir.Constant(I64, offset)], inbounds=True)
        builder.store(stored, builder.bitcast(at, stored.type.as_pointer()), align=1)
        offset += np.dtype(dtype).itemsize
    payload = raw if kind.wide else builder.load(builder.bitcast(raw, I64.as_pointer()))
    name = "seer_send" + ("_wide" if kind.wide else "") + ("_seconds" if seconds else "")
    number = ir.Constant(I32, kind.index)
    sent = core(builder, name, I32, [ctx, number, to, when, payload])
    return builder.icmp_unsigned("!=", sent, ir.Constant(I32, 0))


@lower_builtin("seer.ctx.send", CtxType, types.VarArg(types.Any))
def _send(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _lower_send(context, builder, sig, args, True)


@lower_builtin("seer.ctx.send_ticks", CtxType, types.VarArg(types.Any))
def _send_ticks(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _lower_send(context, builder, sig, args, False)


@lower_builtin("seer.ctx.near", CtxType, types.VarArg(types.Any))
def _near(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    names = [n for n, _ in sig.args[0].layout.grids]
    grid = ir.Constant(I32, names.index(sig.args[1].literal_value))
    numbers = [
        context.cast(builder, v, t, types.float64)
        for v, t in zip(args[2:], sig.args[2:], strict=True)
    ]
    if len(numbers) == 3:  # no z
        numbers.insert(2, ir.Constant(F64, 0.0))
    return core(builder, "seer_near", I64, [args[0], grid, *numbers])


@lower_builtin("seer.ctx.found", CtxType, types.Any)
def _found(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    k = context.cast(builder, args[1], sig.args[1], types.int64)
    table = load_at(builder, args[0], L.CTX_FOUND, I32.as_pointer())  # not the same after a near
    ctx_memory(builder, table, sig.args[0].layout)
    return builder.zext(builder.load(builder.gep(table, [k], inbounds=True)), I64)


@lower_builtin("seer.ctx.integers", CtxType, types.Any)
def _integers(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The high half of bits times n (Lemire 2019, without the rejection)."""
    wide = ir.IntType(128)
    n = context.cast(builder, args[1], sig.args[1], types.uint64)
    bits = core(builder, "seer_bits", I64, [args[0]])
    product = builder.mul(builder.zext(bits, wide), builder.zext(n, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)


@lower_builtin("seer.ctx.fail", CtxType, types.Any)
def _fail(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    code = context.cast(builder, args[1], sig.args[1], types.int32)
    me = builder.zext(load_at(builder, args[0], L.CTX_ENTITY, I32), I64)
    core(builder, "seer_fail", ir.VoidType(), [args[0], me, code])
    return context.get_dummy_value()


def _lower_draw(name: str) -> None:
    function, result, _ = _DRAWS[name]

    @lower_builtin(f"seer.ctx.{name}", CtxType)
    def draw(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return core(builder, function, result, [args[0]])


for _name in _DRAWS:
    _lower_draw(_name)


# ---- seer.math -------------------------------------------------------------------------------


def _register_math(name: str, count: int) -> None:
    fn = getattr(seer_math, name)

    class Template(AbstractTemplate):
        key = fn

        def generic(self, args: Any, kws: Any) -> Any:
            allowed = (types.Integer, types.Float, types.Boolean)
            if len(args) != count or not all(
                isinstance(types.unliteral(a), allowed) for a in args
            ):
                return None
            return signature(types.float64, *[types.float64] * count)

    infer_global(fn, types.Function(Template))

    @lower_builtin(fn, *[types.float64] * count)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if name == "sqrt":
            return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [F64]), args)
        return core(builder, f"seer_{name}", F64, list(args))


for _name, _count in {**seer_math.CORE, "sqrt": 1}.items():
    _register_math(_name, _count)
