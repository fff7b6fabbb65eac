"""Mistakes that a kernel's author makes in one operator: each a change of one call, with the words for it.

A source looks at a call of the original as it happens and offers the changes that make sense there. A change is applied
later to the same call in other cases, at other shapes, where it may raise; that counts as noticed. What is a mistake by
construction only in name (times one, plus zero, a fill of minus infinity made larger) is not offered. Mistakes along
the dimension of a reduction are in `axis_mistakes`, those of precision in `precision_mistakes`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.operator_call import Call, sibling
from triton_agent.tools.worth import Family

STAND_IN_FOR_INFINITY = 1e4
"""A constant this large is a mask's fill or a bound that is never met; ten per cent of it means nothing."""
GUARD = 1e-8
"""Added constants below this keep a division from zero and are lost in float32 rounding otherwise."""
EPSILON = 2e-3
"""Added constants from `GUARD` up to this are an eps."""


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
    if _is_neutral(call):
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


def _is_neutral(call: Call) -> bool:
    """Times one, plus zero, to the power of one: dropping it is no mistake."""
    if len(call.tensors) > 1:
        return False
    other = call.get("other") if call.get("other") is not None else call.get("exponent")
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        if call.name in ("add", "sub"):
            return abs(other) < GUARD
        return call.name in ("mul", "div", "pow") and other == 1
    lowest = call.get("min")
    return call.name in ("clamp", "clamp_min") and call.get("max") is None and _is_guard(lowest)


def _is_guard(value: Any) -> bool:
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


EXCHANGES = (
    "add sub, mul div, maximum minimum, amax amin, max min, argmax argmin, cummax cummin, clamp_min clamp_max, "
    "any all, bitwise_and bitwise_or, logical_and logical_or, bitwise_left_shift bitwise_right_shift, remainder fmod, "
    "sin cos, sqrt rsqrt, floor ceil, exp exp2, log log2, sigmoid tanh, tril triu, gt lt, ge le, eq ne, silu relu"
)
EXCHANGED = {
    one: other for pair in EXCHANGES.split(", ") for one, other in (tuple(pair.split()), tuple(reversed(pair.split())))
} | {"round": "floor", "trunc": "floor", "relu": "abs", "gelu": "relu", "erf": "tanh", "max_pool2d": "avg_pool2d"}


def swapped(call: Call, result: Any) -> Iterator[Mistake]:
    """Another operator in its place, or operands the wrong way about."""
    other = EXCHANGED.get(call.name)
    operator = sibling(call, other) if other else None
    if operator is not None and not (call.name in ("add", "sub", "mul", "div") and _is_neutral(call)):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"{other} instead of {call.name}",
            result=lambda c: c.run(operator=operator),
        )
    if call.name.startswith("max_pool"):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"the minimum instead of the maximum in {call.name}",
            result=lambda c: (lambda r: -r if isinstance(r, torch.Tensor) else (-r[0], *r[1:]))(
                c.run({"self": -c.first})
            ),
        )
    yield from _reversed_operands(call, result)
    yield from _transposed(call)


def _smallest_of_windows(call: Call) -> Any:
    results = call.run({"self": -call.first})
    return -results if isinstance(results, torch.Tensor) else (-results[0], *results[1:])


def _reversed_operands(call: Call, result: Any) -> Iterator[Mistake]:
    if call.name in ("sub", "div") and {"self", "other"} <= set(call.tensors):
        yield Mistake(
            family=Family.SWAPPED,
            what=f"the operands of {call.name} the wrong way about",
            result=lambda c: c.run({"self": c.get("other"), "other": c.get("self")}),
        )
    parts = call.get("tensors")
    if call.name == "cat" and isinstance(parts, (list, tuple)) and len({part.shape for part in parts}) < len(parts):
        yield Mistake(
            family=Family.SWAPPED,
            what="the parts of cat in reverse",
            result=lambda c: c.run({"tensors": list(reversed(c.get("tensors")))}),
        )


def _transposed(call: Call) -> Iterator[Mistake]:
    """Square matrices the wrong way round; filters flipped."""
    for name in CONTRACTIONS.get(call.name, ()):
        matrix = call.get(name)
        if matrix.shape[-1] == matrix.shape[-2] > 1:
            yield Mistake(
                family=Family.SWAPPED,
                what=f"transposing the square {name} of {call.name}",
                result=given(name, lambda matrix: matrix.mT),
            )
    weight = call.get("weight")
    if call.name == "convolution" and any(size > 1 for size in weight.shape[2:]):
        spatial = tuple(range(2, weight.dim()))
        yield Mistake(
            family=Family.SWAPPED,
            what="flipping the filters of convolution",
            result=lambda c: c.run({"weight": c.get("weight").flip(spatial)}),
        )


def constants(call: Call, result: Any) -> Iterator[Mistake]:
    """Numbers in the formula."""
    if call.kind not in ("arithmetic", "reduction", "heavy", "movement"):
        return
    for name, value in call.takes("number", "float", "Tensor"):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from _other_number(call, name, value)
    yield from _other_word(call)
    for name, value in call.takes("bool"):
        if name in ("is_causal", "count_include_pad", "descending", "largest", "training") and _has_effect(call, name):
            yield Mistake(
                family=Family.CONSTANT,
                what=f"{name}={not value} in {call.name}",
                result=given(name, lambda flag: not flag),
            )
    if call.get("reduction") in (1, 2) and isinstance(result, (torch.Tensor, tuple)):
        wrong = 3 - int(call.get("reduction"))
        words = {1: "the mean instead of the sum", 2: "the sum instead of the mean"}[wrong]
        yield Mistake(
            family=Family.CONSTANT, what=f"{words} in {call.name}", result=given("reduction", lambda _: wrong)
        )


def _is_idle(call: Call, name: str, value: float) -> bool:
    """Numbers that do nothing in this call, or that are looked after elsewhere."""
    if name == "momentum":
        return not call.get("training")
    if value == 0:
        return call.name not in THRESHOLDED
    neutral = (name in ("alpha", "beta") and value == 1) or (name == "threshold" and call.name == "softplus")
    return neutral or name == "exponent" or abs(value) >= STAND_IN_FOR_INFINITY or _is_guard(value)


THRESHOLDED = frozenset(
    ["clamp", "clamp_min", "clamp_max", "gt", "ge", "lt", "le", "threshold", "where", "masked_fill"]
)
"""Operators in which a zero is a number like any other."""


def _has_effect(call: Call, name: str) -> bool:
    if name == "count_include_pad":
        return any(call.get("padding") or ())
    return name != "training" or call.get("running_mean") is not None


def _other_number(call: Call, name: str, value: float) -> Iterator[Mistake]:
    is_eps = name in ("eps", "epsilon") or (call.name == "add" and GUARD <= value <= EPSILON)
    if is_eps:
        if value >= GUARD:
            yield _with_number(name, f"dropping eps in {call.name}", lambda v: v * 0)
            yield _with_number(name, f"ten times the eps in {call.name}", lambda v: v * 10)
    elif name == "correction":
        yield _with_number(name, f"the other divisor (n or n-1) in {call.name}", lambda v: 0 if v else 1)
    elif _is_idle(call, name, value):
        return
    elif value == 0 and call.first.is_floating_point():
        yield _with_number(name, f"{name} 0.1 instead of 0 in {call.name}", lambda v: v + 0.1)
    elif call.first.is_floating_point():
        yield _with_number(name, f"{name} 10% larger in {call.name}", lambda v: v * 1.1)
    else:
        yield _with_number(name, f"{name} larger by one in {call.name}", lambda v: v + 1)


def _with_number(name: str, what: str, change: Callable[[Any], Any]) -> Mistake:
    return Mistake(family=Family.CONSTANT, what=what, result=given(name, change))


OTHER_WORDS = {"approximate": {"none": "tanh", "tanh": "none"}, "rounding_mode": {"floor": "trunc", "trunc": "floor"}}


def _other_word(call: Call) -> Iterator[Mistake]:
    for name, exchange in OTHER_WORDS.items():
        word = str(call.get(name))
        if word in exchange:
            what = f"{name}={exchange[word]} in {call.name}"
            yield Mistake(family=Family.CONSTANT, what=what, result=given(name, exchange.__getitem__))
    if "attention" in call.name and call.get("scale") is None and "scale" in call.arguments:
        yield Mistake(
            family=Family.CONSTANT,
            what=f"scale 10% larger in {call.name}",
            result=lambda c: c.run({"scale": 1.1 / math.sqrt(c.first.shape[-1])}),
        )


BOUNDARIES = {"gt": "ge", "ge": "gt", "lt": "le", "le": "lt"}
INDICES = {
    "embedding": ("indices", "weight"),
    "gather": ("index", "self"),
    "index_select": ("index", "self"),
    "scatter": ("index", "self"),
    "scatter_add": ("index", "self"),
    "take": ("index", "self"),
    "nll_loss_forward": ("target", "self"),
}
"""Operator -> the argument with the indices, and the one it points into."""


def off_by_one(call: Call, result: Any) -> Iterator[Mistake]:
    """Indices, diagonals, windows and the edge of a comparison."""
    operator = sibling(call, BOUNDARIES[call.name]) if call.name in BOUNDARIES else None
    if operator is not None and not torch.equal(call.run(operator=operator), result):
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"{BOUNDARIES[call.name]} instead of {call.name}",
            result=lambda c: c.run(operator=operator),
        )
    if call.name in INDICES:
        yield _shifted_indices(call, *INDICES[call.name])
    masks = (torch.bool, torch.uint8)
    if call.name == "index" and not any(i is not None and i.dtype in masks for i in call.get("indices")):
        yield Mistake(family=Family.OFF_BY_ONE, what="indices off by one in index", result=_indexed_next)
    for name in ("diagonal", "shifts"):
        if name in call.arguments and call.name in ("tril", "triu", "roll"):
            yield from _shifted_number(call, name)
    if call.name in ("slice", "select") and call.kind == "view":
        yield from _shifted_window(call)
    yield from _shifted_answers(call, result)


def _shifted_indices(call: Call, name: str, into: str) -> Mistake:
    def shifted(c: Call) -> Any:
        dim = c.get("dim")
        table = c.get(into)
        if c.name == "nll_loss_forward":
            dim = min(1, table.dim() - 1)
        size = table.numel() if c.name == "take" else table.shape[dim or 0] if table.dim() else 1
        return c.run({name: (c.get(name) + 1) % size})

    return Mistake(family=Family.OFF_BY_ONE, what=f"{name} off by one in {call.name}", result=shifted)


def _indexed_next(call: Call) -> Any:
    indices = list(call.get("indices"))
    moved = [i if i is None else (i + 1) % call.first.shape[dim] for dim, i in enumerate(indices)]
    return call.run({"indices": moved})


def _shifted_number(call: Call, name: str) -> Iterator[Mistake]:
    for words, step in (("one more", 1), ("one less", -1)):
        what = f"{name} {words} in {call.name}"
        yield Mistake(family=Family.OFF_BY_ONE, what=what, result=given(name, _moved_by(step)))


def _moved_by(step: int) -> Callable[[Any], Any]:
    return lambda value: [value[0] + step, *value[1:]] if isinstance(value, (list, tuple)) else value + step


def _shifted_window(call: Call) -> Iterator[Mistake]:
    size = call.first.shape[call.get("dim")]
    if call.name == "select" and size > 1:
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what="the next element in select",
            result=lambda c: c.run({"index": (c.get("index") + 1) % c.first.shape[c.get("dim")]}),
        )
    start, end = call.get("start") or 0, min(call.get("end") or size, size)
    if call.name == "slice" and 0 <= start < end and (start, end) != (0, size):
        step = 1 if end < size else -1
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"a slice moved by {step:+d}",
            result=lambda c: c.run({"start": start + step, "end": end + step}),
        )


def _shifted_answers(call: Call, result: Any) -> Iterator[Mistake]:
    """The index that an argmax or sort gives."""
    if call.name in ("argmax", "argmin"):
        yield Mistake(
            family=Family.OFF_BY_ONE, what=f"the index of {call.name} off by one", result=lambda c: c.run() + 1
        )
    elif call.name in ("max", "min", "topk", "sort", "max_pool2d_with_indices") and isinstance(result, tuple):
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"the indices of {call.name} off by one",
            result=lambda c: (lambda values, indices: (values, indices + 1))(*c.run()),
            output=1,
        )


SOURCES: tuple[Source, ...] = (dropped, affine, swapped, constants, off_by_one)
