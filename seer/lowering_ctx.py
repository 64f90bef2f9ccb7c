"""The methods of `ctx` and the functions of :mod:`seer.math`. Part of :mod:`seer.lowering`."""

# mypy: ignore-errors
# (it extends numba's compiler, which has no types)

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global

from . import faults
from . import layout as lay
from . import math as seer_math
from .lowering import (
    F64,
    I32,
    I64,
    METHODS,
    PTR,
    CtxType,
    core,
    ctx_memory,
    load_at,
    narrow,
    refusal,
)
from .rules import nearest

#: ctx method -> C function for those that take ctx alone.
_DRAWS = {
    "uniform": ("seer_uniform", F64, types.float64),
    "normal": ("seer_normal", F64, types.float64),
    "bits": ("seer_bits", I64, types.uint64),
}


class _Method(AbstractTemplate):
    prefer_literal = True

    @property
    def layout(self) -> lay.Layout:
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


METHODS.update({
    "send": _Send, "send_ticks": _SendTicks, "near": _Near, "found": _Found,
    "integers": _Integers, "fail": _Fail, **{n: _draw_template(n) for n in _DRAWS},
})  # fmt: skip


def _lower_send(context: Any, builder: Any, sig: Any, args: Any, seconds: bool) -> Any:
    ctx_type = sig.args[0]
    kind = ctx_type.layout.kind_by_name[sig.args[1].literal_value]
    ctx, _, to, when, *values = args
    to = context.cast(builder, to, sig.args[2], types.int64)
    when = context.cast(builder, when, sig.args[3], types.float64 if seconds else types.int64)
    room = ir.ArrayType(I64, (lay.WIDE_BYTES if kind.wide else 8) // 8)
    buffer = cgutils.alloca_once(builder, room)
    builder.store(ir.Constant(room, None), buffer)
    raw = builder.bitcast(buffer, PTR)
    offset = 0
    for (_, dtype), value, typ in zip(kind.fields, values, sig.args[4:], strict=True):
        stored = narrow(context, builder, value, typ, dtype)
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
    table = load_at(builder, args[0], lay.CTX_FOUND, I32.as_pointer())  # not the same after a near
    ctx_memory(builder, table, sig.args[0].layout)
    return builder.zext(builder.load(builder.gep(table, [k], inbounds=True)), I64)


@lower_builtin("seer.ctx.integers", CtxType, types.Any)
def _integers(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The high half of bits times n (Lemire 2019, without the rejection)."""
    wide = ir.IntType(128)
    n = context.cast(builder, args[1], sig.args[1], types.int64)
    with builder.if_then(builder.icmp_signed("<", n, ir.Constant(I64, 1)), likely=False):
        me = builder.zext(load_at(builder, args[0], lay.CTX_ENTITY, I32), I64)
        core(builder, "seer_fail", ir.VoidType(), [args[0], me, ir.Constant(I32, faults.INTEGERS)])
    bits = core(builder, "seer_bits", I64, [args[0]])
    product = builder.mul(builder.zext(bits, wide), builder.zext(n, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)


@lower_builtin("seer.ctx.fail", CtxType, types.Any)
def _fail(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    code = context.cast(builder, args[1], sig.args[1], types.int32)
    me = builder.zext(load_at(builder, args[0], lay.CTX_ENTITY, I32), I64)
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
            if len(args) != count or not all(isinstance(types.unliteral(a), allowed) for a in args):
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
