"""Rules for padding with a tensor's own elements: reflection and replication."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.sizes import Size, is_constant, minus, plus
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import take


@lowers(*(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def _padded(builder: Builder, call: Call) -> str:
    """Look up an inside position for each position outside. Amounts begin with those of the last dimension."""
    name, amounts = call.tensor("self"), call.sizes("padding")
    mirrors = "reflection" in call.aligned.operator
    for k in range(len(amounts) // 2):
        dim, before, both = len(call.shape) - 1 - k, amounts[2 * k], plus(amounts[2 * k], amounts[2 * k + 1])
        size = builder.shape(name)[dim]
        if all(is_constant(amount, 0) for amount in amounts[2 * k : 2 * k + 2]):
            continue
        if any(amount < 0 for amount in (*before, *amounts[2 * k + 1])):
            raise BeyondAuthor("negative padding")
        if is_constant(both):
            builder.formula(call.shape[dim], f"{{0}} + {both[0]}", size, name="padded")
        name = take(builder, name, _inside(builder, call.shape[dim], before, size, mirrors=mirrors), dim)
    return name


def _inside(builder: Builder, count: Size, before: Size, size: Size, *, mirrors: bool) -> str:
    place: str = builder.iota(count)
    if not is_constant(before, 0):
        place = builder.point("sub", place, Number(before), dtype="int64", hint="place")
    last = Number(minus(size, builder.one()))
    if not mirrors:
        at_least = builder.point("clamp_min", place, builder.number(0), dtype="int64")
        return builder.point("clamp_max", at_least, last, dtype="int64", hint="which")
    left = builder.point("sub", last, builder.point("abs", place, dtype="int64"), dtype="int64", hint="left")
    return builder.point("sub", last, builder.point("abs", left, dtype="int64"), dtype="int64", hint="which")
