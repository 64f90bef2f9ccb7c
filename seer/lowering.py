"""The numba types behind `ctx`, `s` and `e`, and the machine code for what methods do with them.

`ctx`, `s`, `s.seen`, `s.p` and `s.total` are all the native `seer_ctx` pointer, seen through
types that know the model's layout, so attribute access is a load at a fixed offset. Loads of what
stays as it is while a method runs are marked invariant, and columns are told apart by alias
scopes; with these two LLVM hoists and vectorizes as it would for plain arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.datamodel import models
from numba.core.extending import register_model
from numba.core.imputils import (
    lower_getattr_generic,
)
from numba.core.typing.templates import (
    AttributeTemplate,
    infer_getattr,
)
from numba.np.numpy_support import from_dtype

from . import layout as lay
from .rules import nearest

I8, I32, I64, F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
PTR = I8.as_pointer()
_TYPES = {"int": types.int64, "float": types.float64, "bool": types.boolean}
#: ctx method -> typing template; filled by seer.lowering_ctx.
METHODS: dict[str, Any] = {}


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

    def __init__(self, layout: lay.Layout) -> None:
        self.layout = layout
        super().__init__(f"seer.{self.what}<{layout.digest}>")


class CtxType(_OfModel):
    what = "ctx"


class StateType(_OfModel):
    """``home``: the number of the group that the method runs for; -1 where it may be any."""

    what = "s"

    def __init__(self, layout: lay.Layout, home: int = -1) -> None:
        self.home = home
        super().__init__(layout)
        self.name += f"@{home}"


class SeenType(_OfModel):
    what = "seen"


class ParamsType(_OfModel):
    what = "p"


class TotalsType(_OfModel):
    what = "total"


class ColumnType(types.Type):
    """``guarded``: latest values of one group, in a method that may run for another."""

    def __init__(
        self, layout: lay.Layout, column: lay.ColumnLayout, seen: bool, home: int = -1
    ) -> None:
        self.layout, self.column, self.seen = layout, column, seen
        self.guarded = not seen and column.group not in (-1, home)
        where = "seen" if seen else "guarded" if self.guarded else "s"
        super().__init__(f"seer.{where}.{column.name}<{layout.digest}>")

    @property
    def label(self) -> str:
        return f"s.seen.{self.column.name}" if self.seen else f"s.{self.column.name}"


class EventType(types.Type):
    def __init__(self, layout: lay.Layout, kind: lay.KindLayout) -> None:
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


def column_memory(builder: Any, instruction: Any, layout: lay.Layout, column: int) -> Any:
    """The memory of one column's latest values."""
    return own_memory(builder, instruction, column, len(layout.columns) + 1)


def ctx_memory(builder: Any, instruction: Any, layout: lay.Layout) -> Any:
    """The memory of seer_ctx."""
    return own_memory(builder, instruction, len(layout.columns), len(layout.columns) + 1)


def column_base(builder: Any, ctx: Any, layout: lay.Layout, column: int, seen: bool) -> Any:
    """The pointer that an entity id indexes."""
    size = 16 * len(layout.columns)
    table = ctx_field(builder, ctx, lay.CTX_COLUMNS, PTR, size)
    return ctx_field(builder, table, 8 * (2 * column + seen), PTR)


def core(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call a function of the native core."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    fn = cgutils.get_or_insert_function(builder.module, kind, name)
    fn.attributes.add("nounwind")
    return builder.call(fn, arguments)


def params_table(builder: Any, ctx: Any, layout: lay.Layout) -> Any:
    """Where the parameters lie, and the groups behind them."""
    return ctx_field(builder, ctx, lay.CTX_PARAMS, PTR, layout.params_bytes)


def is_member(builder: Any, ctx: Any, layout: lay.Layout, group: int, entity: Any) -> Any:
    """Whether an id is one of a group: one comparison, of numbers that stay in cache."""
    table = params_table(builder, ctx, layout)
    first = ctx_field(builder, table, layout.group_offset(group), I64)
    count = ctx_field(builder, table, layout.group_offset(group) + 8, I64)
    return builder.icmp_unsigned("<", builder.sub(entity, first), count)


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
    layout: lay.Layout = typ.layout
    if isinstance(typ, CtxType):
        values = {"now": types.int64, "time": types.float64, "step": types.int64}
        known = {**values, **METHODS}
        return known.get(attr) or f"ctx has no {attr!r}; {nearest(attr, known)}"
    if isinstance(typ, StateType):
        parts = {"seen": SeenType, "p": ParamsType, "total": TotalsType}
        if attr in parts:
            return parts[attr](layout)
        if attr in layout.column_by_name:
            return ColumnType(layout, layout.column_by_name[attr], False, typ.home)
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
        return ctx_field(builder, ctx, lay.CTX_STEP, I64)
    now = ctx_field(builder, ctx, lay.CTX_NOW, I64)
    if attr == "now":
        return now
    seconds = ctx_field(builder, ctx, lay.CTX_SECONDS, F64)
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
    table = params_table(builder, ctx, typ.layout)
    kind = dict(typ.layout.params)[attr]
    stored = F64 if kind == "float" else I64
    value = ctx_field(builder, table, 8 * names.index(attr), stored)
    if kind == "bool":
        return builder.icmp_unsigned("!=", value, ir.Constant(I64, 0))
    return value


@lower_getattr_generic(TotalsType)
def _total(context: Any, builder: Any, typ: Any, ctx: Any, attr: str) -> Any:
    table = ctx_field(builder, ctx, lay.CTX_TOTALS, PTR, 8 * len(typ.layout.totals))
    return ctx_field(builder, table, 8 * typ.layout.totals.index(attr), F64)


def narrow(context: Any, builder: Any, value: Any, typ: Any, dtype: str) -> Any:
    """A value as it is stored; `seer.events.stored` is the same in plain Python.

    A float for an integer is cut off; what is too large becomes the nearest that fits, and what is
    no number 0. LLVM's own conversion leaves both undefined.
    """
    target = native(dtype)
    if not (isinstance(typ, types.Float) and isinstance(target, types.Integer)):
        return context.cast(builder, value, typ, target)
    whole = ir.IntType(target.bitwidth)
    name = "llvm.fptosi.sat" if target.signed else "llvm.fptoui.sat"
    convert = builder.module.declare_intrinsic(name, (whole, F64), ir.FunctionType(whole, [F64]))
    return builder.call(convert, [context.cast(builder, value, typ, types.float64)])


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
        "time": (lay.EVENT_TIME, 64), "source": (lay.EVENT_SOURCE, 32),
        "sequence": (lay.EVENT_SEQUENCE, 32), "round": (lay.EVENT_ROUND, 16),
    }[attr]  # fmt: skip
    raw = invariant(builder, load_at(builder, e.event, place, ir.IntType(size)))
    return raw if size == 64 else builder.zext(raw, I64)
