"""Mistakes that a kernel's author makes in one operator: each a change of one call, with the words for it.

A source looks at a call of the original as it happens and offers the changes that make sense there. A change is applied
later to the same call in other cases, at other shapes, where it may raise; that counts as noticed. What is a mistake by
construction only in name (times one, plus zero, a fill of minus infinity made larger) is not offered. Mistakes along
the dimension of a reduction are in `axis_mistakes`, those of precision in `precision_mistakes`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.operator_call import Call
from triton_agent.tools.worth import Family

GUARD = 1e-8
"""Added constants below this keep a division from zero and are lost in float32 rounding otherwise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One way to get one call wrong."""

    family: Family
    what: str
    """As the start of a sentence."""
    result: Callable[[Call], Any]
    """What the call gives instead."""
    output: int | None = None
    """The only result that it changes; None where that may be any."""


Source = Callable[[Call, Any], Iterator[Mistake]]
"""A call, and what it gave."""


def given(name: str, other: Callable[[Any], Any]) -> Callable[[Call], Any]:
    """The call with one argument made another."""
    return lambda call: call.run({name: other(call.get(name))})


def operand(name: str) -> Callable[[Call], Any]:
    """One operand in place of the result."""
    return lambda call: _like_result(call, call.get(name)).clone()


SAME_SHAPE = frozenset(
    [
        "_softmax",
        "_log_softmax",
        "_safe_softmax",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "_fused_rms_norm",
    ]
)
"""Not pointwise, and yet the output looks like the input."""

CONTRACTIONS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}
"""Matrix products -> their two operands."""


def dropped(call: Call, result: Any) -> Iterator[Mistake]:
    """A whole step, or one of two operands."""
    if not isinstance(result, torch.Tensor):
        if call.name in SAME_SHAPE:
            yield Mistake(
                family=Family.DROPPED,
                what=f"dropping {call.name}",
                result=lambda c: (c.first.clone(), *c.run()[1:]),
                output=0,
            )
        return
    if call.name == "where":
        yield from _one_branch(call)
    elif call.kind == "arithmetic" or call.name in SAME_SHAPE or call.name in ("tril", "triu", "masked_fill"):
        yield from _one_operand(call, result)


def _one_branch(call: Call) -> Iterator[Mistake]:
    for name, words in (("self", "first"), ("other", "second")):
        yield Mistake(
            family=Family.DROPPED,
            what=f"always taking the {words} branch of where",
            result=operand(name),
        )


def _one_operand(call: Call, result: torch.Tensor) -> Iterator[Mistake]:
    if is_neutral(call):
        return
    operands = {name: t for name, t in call.tensors.items() if name != "mask"}
    fitting = [name for name, t in operands.items() if t.dtype == result.dtype and _broadcasts(t, result)]
    for name in fitting[:2]:
        others = [other for other in operands if other != name]
        words = f"dropping {call.name}" if not others else f"leaving the {_ordinal(call, others[0])} out of {call.name}"
        yield Mistake(family=Family.DROPPED, what=words, result=operand(name))


def _ordinal(call: Call, name: str) -> str:
    return f"{['first', 'second', 'third', 'fourth'][min(3, list(call.tensors).index(name))]} operand"


def _like_result(call: Call, value: torch.Tensor | float) -> torch.Tensor:
    """An operand in the shape that the operator would have given."""
    shape = _common_shape(*call.tensors.values())
    if isinstance(value, torch.Tensor):
        return value.expand(shape)
    return torch.full(shape, value, dtype=call.run().dtype)


def _common_shape(*tensors: torch.Tensor) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))  # type: ignore[no-untyped-call]
    return shape


def _broadcasts(operand: torch.Tensor, result: torch.Tensor) -> bool:
    try:
        return _common_shape(operand, result) == result.shape
    except RuntimeError:
        return False


def is_neutral(call: Call) -> bool:
    """Times one, plus zero, to the power of one: dropping it is no mistake."""
    if len(call.tensors) > 1:
        return False
    other = call.get("other") if call.get("other") is not None else call.get("exponent")
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        if call.name in ("add", "sub"):
            return abs(other) < GUARD
        return call.name in ("mul", "div", "pow") and other == 1
    lowest = call.get("min")
    return call.name in ("clamp", "clamp_min") and call.get("max") is None and is_guard(lowest)


def is_guard(value: Any) -> bool:
    return isinstance(value, float) and 0 < abs(value) < GUARD


def affine(call: Call, result: Any) -> Iterator[Mistake]:
    """Weights and biases that an operator takes beside its input."""
    for name in ("weight", "bias", "attn_mask"):
        if isinstance(call.get(name), torch.Tensor) and call.is_optional(name):
            yield Mistake(
                family=Family.DROPPED,
                what=f"dropping the {name} of {call.name}",
                result=given(name, lambda _: None),
            )
    if "beta" in call.arguments and call.name in CONTRACTIONS and call.get("beta") != 0:
        a, b = CONTRACTIONS[call.name]
        yield Mistake(
            family=Family.DROPPED,
            what=f"dropping the bias of {call.name}",
            result=lambda c: torch.matmul(c.get(a), c.get(b)).mul_(c.get("alpha")),
        )
