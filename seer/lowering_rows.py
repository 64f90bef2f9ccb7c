"""Reading and writing columns: ``s.pos[i, k]``, rows as arrays. Part of :mod:`seer.lowering`."""

# mypy: ignore-errors
# (it extends numba's compiler, which has no types)

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.np.arrayobj import make_array, populate_array

from . import faults
from . import layout as lay
from .lowering import (
    I32,
    I64,
    ColumnType,
    column_memory,
    core,
    invariant,
    is_member,
    load_at,
    narrow,
    native,
    refusal,
    widen,
    widened,
)


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
    """An index of the wrong type or length."""
    shape = typ.column.shape
    have = f"rows of shape {shape}" if shape else "one value per entity"
    return refusal(
        f"{typ.label}[{index}]: expected an entity and at most {len(shape)} indices after it; it "
        f"has {have}"
    )


def rest_tuple(rest: list[Any]) -> types.Type:
    """The index type for what follows the whole numbers."""
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
            raise refusal(f"{typ.label} is written by the engine; write s.{typ.column.name}")
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


def check(context: Any, builder: Any, good: Any, typ: ColumnType, ctx: Any, what: str) -> None:
    """Report a failure that names column and rule, and leave the method, unless good."""
    with builder.if_then(builder.not_(good), likely=False):
        code = faults.access_code(typ.column.index, typ.seen, what)
        me = builder.zext(load_at(builder, ctx, lay.CTX_ENTITY, I32), I64)
        core(builder, "seer_fail", ir.VoidType(), [ctx, me, ir.Constant(I32, code)])
        context.call_conv.return_user_exc(builder, IndexError, (typ.label,))


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
        inside = builder.and_(builder.icmp_signed(">=", i, low), builder.icmp_signed("<", i, high))
        check(context, builder, inside, typ, col.ctx, "entity")
        if not typ.seen:
            me = builder.zext(load_at(builder, col.ctx, lay.CTX_ENTITY, I32), I64)
            own = builder.icmp_signed("==", i, me)
            check(context, builder, own, typ, col.ctx, "other")
        for number, size in zip(numbers[1:], c.shape, strict=False):
            good = builder.icmp_unsigned("<", number, ir.Constant(I64, size))
            check(context, builder, good, typ, col.ctx, "index")
    elif typ.guarded:
        member = is_member(builder, col.ctx, typ.layout, c.group, numbers[0])
        check(context, builder, member, typ, col.ctx, "entity")
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
    """The index type and value for what follows the whole numbers."""
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
        stored = narrow(context, builder, args[2], value, c.dtype)
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
