"""Rules for matrix products.

A product with a single row or column is lowered to an elementwise product and a sum: it is limited by memory, not by
the matrix unit. A product with an inner dimension of one needs no sum.
"""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import CONVOLUTION, FLOATS, Number
from triton_agent.policy.author.ir.sizes import is_constant, product
from triton_agent.policy.author.rules.building import Builder, Call, lowers


def multiply(builder: Builder, a: str, b: str, dtype: str, *, of_convolution: bool = False) -> str:
    """Multiply [..., m, k] by [..., k, n]; the leading dimensions must be equal."""
    left, right = builder.shape(a), builder.shape(b)
    if dtype not in FLOATS or left[-1] != right[-2] or left[:-2] != right[:-2]:
        raise BeyondAuthor("a product with unequal leading or inner dimensions")
    a, b = builder.cast(a, dtype), builder.cast(b, dtype)
    if is_constant(left[-1], 1):
        return builder.point("mul", a, b, dtype=dtype, hint="product")
    if is_constant(left[-2], 1) or is_constant(right[-1], 1) or dtype == "float64":
        return _summed(builder, a, b, dtype)
    detail = (CONVOLUTION,) if of_convolution else ()
    return builder.emit("dot", a, b, shape=(*left[:-1], right[-1]), dtype=dtype, detail=detail, hint="product")


def _summed(builder: Builder, a: str, b: str, dtype: str) -> str:
    """Lower a product to elementwise products and a sum over the inner dimension, which is made the last one."""
    columns = builder.swap(b, -2, -1)
    rank = len(builder.shape(a))
    spread = builder.unsqueeze(a, rank - 1)
    pairs = builder.point("mul", spread, builder.unsqueeze(columns, rank - 2), dtype=dtype)
    return builder.reduce("sum", pairs, (rank,), dtype=dtype, hint="product")


@lowers("mm", "bmm")
def _mm(builder: Builder, call: Call) -> str:
    return multiply(builder, call.tensor("self"), call.tensor("mat2"), call.dtype)


@lowers("mv")
def _mv(builder: Builder, call: Call) -> str:
    vector = builder.unsqueeze(call.tensor("vec"), 1)
    return builder.reshape(multiply(builder, call.tensor("self"), vector, call.dtype), call.shape)


@lowers("dot", "vdot")
def _dot(builder: Builder, call: Call) -> str:
    other = call.tensor("tensor" if call.has("tensor") else "other")
    pairs = builder.point("mul", call.tensor("self"), other, dtype=call.dtype)
    return builder.reduce("sum", pairs, (0,))


@lowers("addmm", "baddbmm", "addmv", "_addmm_activation")
def _addmm(builder: Builder, call: Call) -> str:
    if call.aligned.operator == "aten.addmv":
        column = builder.unsqueeze(call.tensor("vec"), 1)
        made = builder.reshape(multiply(builder, call.tensor("mat"), column, call.dtype), call.shape)
    else:
        first, second = ("batch1", "batch2") if call.has("batch1") else ("mat1", "mat2")
        made = multiply(builder, call.tensor(first), call.tensor(second), call.dtype)
    alpha, beta, added = call.operand("alpha", 1), call.operand("beta", 1), call.tensor("self")
    if not _is_one(alpha):
        made = builder.point("mul", made, alpha, dtype=call.dtype)
    if beta == builder.number(0):
        return made
    if not _is_one(beta):
        added = builder.point("mul", added, beta, dtype=call.dtype)
    made = builder.point("add", made, added, dtype=call.dtype, hint="biased")
    if call.aligned.operator == "aten._addmm_activation":
        made = builder.point("gelu" if call.plain("use_gelu", False) else "relu", made, dtype=call.dtype)
    return made


def _is_one(number: object) -> bool:
    return isinstance(number, Number) and number.fixed and number.values[0] == 1


@lowers("linear")
def _linear(builder: Builder, call: Call) -> str:
    name, weight = call.tensor("input"), builder.swap(call.tensor("weight"), 0, 1)
    shape = builder.shape(name)
    flat = builder.reshape(name, (product(shape[:-1], builder.width), shape[-1]))
    made = builder.reshape(multiply(builder, flat, weight, call.dtype), call.shape)
    return builder.point("add", made, call.tensor("bias"), dtype=call.dtype) if call.has("bias") else made


@lowers("matmul")
def _matmul(builder: Builder, call: Call) -> str:
    a, b = call.tensor("self"), call.tensor("other")
    if len(builder.shape(a)) < 2 or len(builder.shape(b)) < 2:
        raise BeyondAuthor("vectors")
    lead = call.shape[:-2]
    a, b = (builder.expand(x, (*lead, *builder.shape(x)[-2:])) for x in (a, b))
    return multiply(builder, a, b, call.dtype)
