"""Mistakes that authors of kernels make in one operator, as rules that take a call and return wrong versions of it.

A rule sees a call of the reference with its result, and yields the mistakes that make sense there. A mistake is later
applied to the same call in other cases, at other shapes; if it raises an error there, it counts as refused. Changes
without effect are not mistakes and are left out: times one, plus zero, a larger stand-in for infinity. Not covered:
mistakes that involve several operators.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.audit.operator_call import OperatorCall
from triton_agent.tools.audit.report import Family
from triton_agent.tools.graph.operators import words
from triton_agent.tools.reference.input_tensors import map_tensors
from triton_agent.tools.reference.tensor_cores import to_tf32

GUARD = 1e-8
"""Smaller added constants only prevent a division by zero; float32 rounding loses them otherwise."""
EPSILON = 2e-3
"""Added constants from `GUARD` up to this are taken for an eps."""
STAND_IN_FOR_INFINITY = 1e4
"""Larger constants fill a mask, or are a bound that is never reached; increasing them by 10% changes nothing."""
OTHER_DIMENSIONS = 2
"""Number of wrong dimensions tried for each reduction."""
TILE = 16
"""Number of terms summed exactly before rounding: the smallest tile of a matrix unit."""

Change = Callable[[OperatorCall], Any]
"""Returns the wrong result of a call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in one call."""

    what: str
    """The start of a sentence about it."""
    result: Change
    output: int | None = None
    """Index of the only result that changes; None if any may change."""


def given(name: str, other: Callable[[Any], Any]) -> Change:
    """Return a change that runs the call with one argument changed."""
    return lambda call: call.run({name: other(call.get(name))})


# -- the operators that the rules know ---------------------------------------------------------------------------------


CONTRACTIONS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}
"""The two operands of each matrix product."""
SOFTMAXES = words("_softmax _log_softmax _safe_softmax")
SCANS = words("cumsum cumprod cummax cummin logcumsumexp")
REDUCERS = words("sum mean prod amax amin max min argmax argmin any all var std logsumexp linalg_vector_norm")
SAME_SHAPE = SOFTMAXES | words(
    "cumsum cumprod logcumsumexp native_layer_norm native_group_norm native_batch_norm _fused_rms_norm "
    "_native_batch_norm_legit _native_batch_norm_legit_no_training"
)
"""Operators that are not pointwise although input and output have the same shape."""
EXCHANGES = (
    "add sub, mul div, maximum minimum, amax amin, max min, argmax argmin, cummax cummin, clamp_min clamp_max, "
    "any all, bitwise_and bitwise_or, logical_and logical_or, bitwise_left_shift bitwise_right_shift, remainder fmod, "
    "sin cos, sqrt rsqrt, floor ceil, exp exp2, log log2, sigmoid tanh, tril triu, gt lt, ge le, eq ne, silu relu"
)
EXCHANGED = {
    one: other for pair in EXCHANGES.split(", ") for one, other in (tuple(pair.split()), tuple(reversed(pair.split())))
} | {"round": "floor", "trunc": "floor", "relu": "abs", "gelu": "relu", "erf": "tanh", "max_pool2d": "avg_pool2d"}
"""For each operator, one that is easily confused with it."""
BOUNDARIES = {"gt": "ge", "ge": "gt", "lt": "le", "le": "lt"}
INDICES = {
    "embedding": ("indices", "weight"),
    "_embedding_bag": ("indices", "weight"),
    "gather": ("index", "self"),
    "index_select": ("index", "self"),
    "scatter": ("index", "self"),
    "scatter_add": ("index", "self"),
    "take": ("index", "self"),
    "nll_loss_forward": ("target", "self"),
}
"""For each operator, the argument with indices and the argument they point into."""
THRESHOLDED = words("clamp clamp_min clamp_max gt ge lt le threshold where masked_fill")
"""Operators for which zero is not a special value."""
FLAGS = ("is_causal", "count_include_pad", "descending", "largest", "training")
OTHER_WORDS = {"approximate": {"none": "tanh", "tanh": "none"}, "rounding_mode": {"floor": "trunc", "trunc": "floor"}}
"""For each argument, the wrong word in place of each word."""


# -- steps and operands left out ---------------------------------------------------------------------------------------


def dropped(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Leave out a whole step, an operand, a weight or a bias."""
    if not isinstance(result, torch.Tensor):
        if call.name in SAME_SHAPE:
            yield Mistake(f"dropping {call.name}", lambda c: (c.first.clone(), *c.run()[1:]), output=0)
    elif call.name == "where":
        yield Mistake("always taking the first branch of where", _operand("self"))
        yield Mistake("always taking the second branch of where", _operand("other"))
    elif (
        call.kind == "arithmetic" or call.name in SAME_SHAPE or call.name in ("tril", "triu", "masked_fill")
    ) and not _is_neutral(call):
        operands = {name: tensor for name, tensor in call.tensors.items() if name != "mask"}
        fitting = [name for name, t in operands.items() if t.dtype == result.dtype and _broadcasts(t, result)]
        for name in fitting[:2]:
            what, others = f"dropping {call.name}", [other for other in operands if other != name]
            if others:
                place = ("first", "second", "third", "fourth")[min(3, list(call.tensors).index(others[0]))]
                what = f"leaving the {place} operand out of {call.name}"
            yield Mistake(what, _operand(name))
    for name in ("weight", "bias", "attn_mask"):
        if isinstance(call.get(name), torch.Tensor) and call.is_optional(name):
            yield Mistake(f"dropping the {name} of {call.name}", given(name, lambda _: None))
    if "beta" in call.arguments and call.name in CONTRACTIONS and call.get("beta") != 0:
        a, b = CONTRACTIONS[call.name]
        what = f"dropping the bias of {call.name}"
        yield Mistake(what, lambda c: torch.matmul(c.get(a), c.get(b)).mul_(c.get("alpha")))


def _operand(name: str) -> Change:
    """Return a change that replaces the result by one operand, expanded to the shape of the result."""

    def change(call: OperatorCall) -> torch.Tensor:
        value, shape = call.get(name), _common_shape(*call.tensors.values())
        if isinstance(value, torch.Tensor):
            return value.expand(shape).clone()
        return torch.full(shape, value, dtype=call.run().dtype)

    return change


def _common_shape(*tensors: torch.Tensor) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))  # type: ignore[no-untyped-call]
    return shape


def _broadcasts(operand: torch.Tensor, result: torch.Tensor) -> bool:
    try:
        return _common_shape(operand, result) == result.shape
    except RuntimeError:
        return False


def _is_neutral(call: OperatorCall) -> bool:
    """Return True if the call has no effect: times one, plus zero, to the power of one."""
    if len(call.tensors) > 1:
        return False
    other = call.get("other") if call.get("other") is not None else call.get("exponent")
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        if call.name in ("add", "sub"):
            return abs(other) < GUARD
        return call.name in ("mul", "div", "pow") and other == 1
    return call.name in ("clamp", "clamp_min") and call.get("max") is None and _is_guard(call.get("min"))


def _is_guard(value: Any) -> bool:
    return isinstance(value, float) and 0 < abs(value) < GUARD


# -- another operator, operands exchanged ------------------------------------------------------------------------------


def swapped(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Use another operator, exchange the operands, or transpose one of them."""
    other = EXCHANGED.get(call.name)
    operator = call.sibling(other) if other else None
    if operator is not None and not (call.name in ("add", "sub", "mul", "div") and _is_neutral(call)):
        yield Mistake(f"{other} instead of {call.name}", lambda c: c.run(operator=operator))
    if call.name.startswith("max_pool"):
        yield Mistake(f"the minimum instead of the maximum in {call.name}", _pooled_minimum)
    if call.name in ("sub", "div") and {"self", "other"} <= set(call.tensors):
        what = f"the operands of {call.name} the wrong way about"
        yield Mistake(what, lambda c: c.run({"self": c.get("other"), "other": c.get("self")}))
    parts = call.get("tensors")
    if call.name == "cat" and isinstance(parts, (list, tuple)) and len({part.shape for part in parts}) < len(parts):
        yield Mistake("the parts of cat in reverse", given("tensors", lambda parts: list(reversed(parts))))
    for name in CONTRACTIONS.get(call.name, ()):
        if call.get(name).shape[-1] == call.get(name).shape[-2] > 1:
            yield Mistake(f"transposing the square {name} of {call.name}", given(name, lambda matrix: matrix.mT))
    weight = call.get("weight")
    if call.name == "convolution" and any(size > 1 for size in weight.shape[2:]):
        flipped = given("weight", lambda weight: weight.flip(tuple(range(2, weight.dim()))))
        yield Mistake("flipping the filters of convolution", flipped)


def _pooled_minimum(call: OperatorCall) -> Any:
    pooled = call.run({"self": -call.first})
    return -pooled if isinstance(pooled, torch.Tensor) else (-pooled[0], *pooled[1:])


# -- numbers, flags and words ------------------------------------------------------------------------------------------


def constants(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Change a number, a flag or a word in the call: scale, slope, eps, divisor, mode."""
    if call.kind not in ("arithmetic", "reduction", "heavy", "movement"):
        return
    for name, value in call.takes("number", "float", "Tensor"):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for what, change in _other_numbers(call, name, value):
                yield Mistake(f"{what} in {call.name}", given(name, change))
    for name, exchange in OTHER_WORDS.items():
        word = str(call.get(name))
        if word in exchange:
            yield Mistake(f"{name}={exchange[word]} in {call.name}", given(name, exchange.__getitem__))
    if "attention" in call.name and call.get("scale") is None and "scale" in call.arguments:
        what = f"scale 10% larger in {call.name}"
        yield Mistake(what, lambda c: c.run({"scale": 1.1 / math.sqrt(c.first.shape[-1])}))
    for name, value in call.takes("bool"):
        idle = (name == "count_include_pad" and not any(call.get("padding") or ())) or (
            name == "training" and call.get("running_mean") is None
        )
        if name in FLAGS and not idle:
            yield Mistake(f"{name}={not value} in {call.name}", given(name, lambda flag: not flag))
    if call.get("reduction") in (1, 2) and isinstance(result, (torch.Tensor, tuple)):
        wrong = 3 - int(call.get("reduction"))
        words = {1: "the mean instead of the sum", 2: "the sum instead of the mean"}[wrong]
        yield Mistake(f"{words} in {call.name}", given("reduction", lambda _: wrong))
    dims = dimensions_of(call)
    if call.name == "mean" and dims and call.first.shape[dims[-1]] > 1:
        yield Mistake("dividing by n + 1 in mean", functools.partial(_mean_of_one_more, dims=dims))


def _other_numbers(call: OperatorCall, name: str, value: float) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield descriptions and changes of a number; none for numbers that have no effect in this call."""
    if name in ("eps", "epsilon") or (call.name == "add" and GUARD <= value <= EPSILON):
        if value >= GUARD:
            yield "dropping eps", lambda v: v * 0
            yield "ten times the eps", lambda v: v * 10
    elif name == "correction":
        yield "the other divisor (n or n-1)", lambda v: 0 if v else 1
    elif not _is_idle(call, name, value):
        if not call.first.is_floating_point():
            yield f"{name} larger by one", lambda v: v + 1
        elif value == 0:
            yield f"{name} 0.1 instead of 0", lambda v: v + 0.1
        else:
            yield f"{name} 10% larger", lambda v: v * 1.1


def _is_idle(call: OperatorCall, name: str, value: float) -> bool:
    """Return True if the number has no effect in this call, or if another rule changes it."""
    if name == "momentum":
        return not call.get("training")
    if value == 0:
        return call.name not in THRESHOLDED
    neutral = (name in ("alpha", "beta") and value == 1) or (name == "threshold" and call.name == "softplus")
    return neutral or name == "exponent" or abs(value) >= STAND_IN_FOR_INFINITY or _is_guard(value)


def _mean_of_one_more(call: OperatorCall, *, dims: list[int]) -> Any:
    count = math.prod(call.first.shape[d] for d in dims)
    return call.run() * (count / (count + 1))


# -- off by one --------------------------------------------------------------------------------------------------------


def off_by_one(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Move an index, a diagonal, a window or the edge of a comparison by one."""
    operator = call.sibling(BOUNDARIES[call.name]) if call.name in BOUNDARIES else None
    if operator is not None and not torch.equal(call.run(operator=operator), result):
        yield Mistake(f"{BOUNDARIES[call.name]} instead of {call.name}", lambda c: c.run(operator=operator))
    if call.name in INDICES:
        yield Mistake(f"{INDICES[call.name][0]} off by one in {call.name}", _next_index)
    masks = (torch.bool, torch.uint8)
    if call.name == "index" and not any(i is not None and i.dtype in masks for i in call.get("indices")):
        yield Mistake("indices off by one in index", _next_indices)
    for name in ("diagonal", "shifts"):
        if name in call.arguments and call.name in ("tril", "triu", "roll"):
            yield Mistake(f"{name} one more in {call.name}", given(name, functools.partial(_moved, step=1)))
            yield Mistake(f"{name} one less in {call.name}", given(name, functools.partial(_moved, step=-1)))
    if call.name in ("slice", "select") and call.kind == "view":
        size = call.first.shape[call.get("dim")]
        if call.name == "select" and size > 1:
            yield Mistake(
                "the next element in select",
                lambda c: c.run({"index": (c.get("index") + 1) % c.first.shape[c.get("dim")]}),
            )
        start, end = call.get("start") or 0, min(call.get("end") or size, size)
        if call.name == "slice" and 0 <= start < end and (start, end) != (0, size):
            step = 1 if end < size else -1
            yield Mistake(f"a slice moved by {step:+d}", lambda c: c.run({"start": start + step, "end": end + step}))
    if call.name in ("argmax", "argmin"):
        yield Mistake(f"the index of {call.name} off by one", lambda c: c.run() + 1)
    elif call.name in ("max", "min", "topk", "sort", "max_pool2d_with_indices") and isinstance(result, tuple):
        what = f"the indices of {call.name} off by one"
        yield Mistake(what, lambda c: (lambda values, indices: (values, indices + 1))(*c.run()), output=1)


def _next_index(call: OperatorCall) -> Any:
    name, into = INDICES[call.name]
    table = call.get(into)
    dim = min(1, table.dim() - 1) if call.name == "nll_loss_forward" else call.get("dim") or 0
    size = table.numel() if call.name == "take" else table.shape[dim] if table.dim() else 1
    return call.run({name: (call.get(name) + 1) % size})


def _next_indices(call: OperatorCall) -> Any:
    indices = enumerate(call.get("indices"))
    return call.run({"indices": [i if i is None else (i + 1) % call.first.shape[dim] for dim, i in indices]})


def _moved(value: Any, *, step: int) -> Any:
    return [value[0] + step, *value[1:]] if isinstance(value, (list, tuple)) else value + step


# -- along the dimension of a reduction --------------------------------------------------------------------------------


def dimensions_of(call: OperatorCall) -> list[int] | None:
    """Return the dimensions that a call reduces or scans over, or None if it does neither."""
    if call.kind != "reduction" or not call.tensors or "norm" in call.name.removeprefix("linalg_vector_norm"):
        return None
    ndim, dim = call.first.dim(), call.get("dim")
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(ndim)) if call.name in REDUCERS else None
    return [d % ndim for d in (dim if isinstance(dim, (list, tuple)) else [dim])] if ndim else None


def wrong_axis(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Reduce over another dimension, and bring the result to the expected shape."""
    dims = dimensions_of(call)
    if dims is None or call.get("dim") is None:
        return
    if "keepdim" not in call.arguments and call.name not in SCANS | SOFTMAXES:
        return
    sizes = call.first.shape
    others = [d for d in reversed(range(call.first.dim())) if d not in dims and (sizes[d] > 1 or sizes[dims[0]] > 1)]
    for other in others[:OTHER_DIMENSIONS]:
        what = f"{call.name} over dimension {other} instead of {dims[0]}"
        yield Mistake(what, functools.partial(_reduced_over, wrong=[other, *dims[1:]], right=dims))


def _reduced_over(call: OperatorCall, *, wrong: list[int], right: list[int]) -> Any:
    dim: Any = wrong if isinstance(call.get("dim"), (list, tuple)) else wrong[0]
    plain = call.run({"dim": dim})
    if "keepdim" not in call.arguments:
        return plain
    shape = [1 if d in right else size for d, size in enumerate(call.first.shape)]
    expected = shape if call.get("keepdim") else [size for d, size in enumerate(shape) if d not in right]
    if list((plain if isinstance(plain, torch.Tensor) else plain[0]).shape) == expected:
        return plain

    def fitted(kept: torch.Tensor) -> torch.Tensor:
        whole = kept.expand(call.first.shape)
        for d in right:
            whole = whole.narrow(d, 0, 1)
        return whole.reshape(expected).clone()

    return map_tensors(call.run({"dim": dim, "keepdim": True}), fitted)


def truncated(call: OperatorCall, result: Any) -> Iterator[Mistake]:
    """Leave out the last element of a sum, a comparison or a product."""
    what, dims = f"leaving the last element out of {call.name}", dimensions_of(call)
    if call.name in CONTRACTIONS and call.get(CONTRACTIONS[call.name][0]).shape[-1] > 1:
        a, b = CONTRACTIONS[call.name]
        yield Mistake(what, lambda c: c.run({a: c.get(a)[..., :-1], b: c.get(b)[..., :-1, :]}))
    elif call.name == "convolution" and call.get("weight").shape[1] > 1:
        yield Mistake(what, given("weight", _without_last_channel))
    elif "attention" in call.name and "key" in call.tensors and call.get("attn_mask") is None:
        yield Mistake(what, lambda c: c.run({name: c.get(name)[..., :-1, :] for name in ("key", "value")}))
    elif dims and call.first.shape[dims[-1]] > 1 and call.name in REDUCERS | SOFTMAXES:
        yield Mistake(what, functools.partial(_one_short, dim=dims[-1]))


def _without_last_channel(weight: torch.Tensor) -> torch.Tensor:
    weight = weight.clone()
    weight[:, -1] = 0
    return weight


def _one_short(call: OperatorCall, *, dim: int) -> Any:
    short = call.run({"self": call.first.narrow(dim, 0, call.first.shape[dim] - 1)})
    return torch.cat([short, torch.zeros_like(short.narrow(dim, 0, 1))], dim) if call.name in SOFTMAXES else short


# -- precision ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """A floating-point format, and rounding to it."""

    name: str
    unit: float
    """Spacing of numbers at one."""
    apply: Callable[[torch.Tensor], torch.Tensor]
    matrix_only: bool = False
    """True if the format is used only for matrix products and similar operators."""


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype).to(tensor.dtype)


FLOAT32 = Rounding(name="float32", unit=2.0**-23, apply=_through(torch.float32))
TF32 = Rounding(name="TF32", unit=2.0**-10, apply=lambda t: to_tf32(t.float(), cut=False).to(t.dtype), matrix_only=True)
FLOAT16 = Rounding(name="float16", unit=2.0**-10, apply=_through(torch.float16))
BFLOAT16 = Rounding(name="bfloat16", unit=2.0**-7, apply=_through(torch.bfloat16))


def coarser_than(dtypes: list[torch.dtype]) -> tuple[Rounding, ...]:
    """Return the formats that are coarser than all these output dtypes; for integers only bfloat16.

    Every kernel may round intermediate values to the format of its outputs, so float16 outputs allow float16.
    """
    units = [torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point]
    if not units:
        return (BFLOAT16,)
    return tuple(rounding for rounding in (FLOAT32, TF32, FLOAT16, BFLOAT16) if rounding.unit > max(units))


def imprecise(call: OperatorCall, roundings: tuple[Rounding, ...]) -> Iterator[Mistake]:
    """Round the operands to fewer bits, or keep a sum in half precision."""
    if call.kind not in ("heavy", "arithmetic", "reduction"):
        return
    if not any(tensor.is_floating_point() for tensor in call.tensors.values()):
        return
    for rounding in roundings:
        if call.kind == "heavy" or not rounding.matrix_only:
            change = functools.partial(_on_rounded, rounding=rounding)
            yield Mistake(f"{call.name} on operands in {rounding.name}", change)
    if call.first.dtype in (torch.float16, torch.bfloat16):
        what = f"accumulating {call.name} in {str(call.first.dtype).removeprefix('torch.')}"
        dims = dimensions_of(call) if call.name in ("sum", "mean") else None
        if call.name in CONTRACTIONS and call.get(CONTRACTIONS[call.name][0]).shape[-1] > TILE:
            yield Mistake(what, _contracted_in_half)
        elif dims is not None and call.get("dtype") is None and call.first.shape[dims[-1]] > TILE:
            yield Mistake(what, _summed_in_half)


def _on_rounded(call: OperatorCall, *, rounding: Rounding) -> Any:
    return call.run({name: rounding.apply(t) for name, t in call.tensors.items() if t.is_floating_point()})


def _contracted_in_half(call: OperatorCall) -> Any:
    a, b = (call.get(name) for name in CONTRACTIONS[call.name])
    total: Any = 0
    for left, right in zip(torch.split(a, TILE, -1), torch.split(b, TILE, -2)):
        total = total + torch.matmul(left.float(), right.float()).to(a.dtype)
    if "beta" in call.arguments:
        return call.get("beta") * call.get("self") + call.get("alpha") * total
    return total


def _summed_in_half(call: OperatorCall) -> Any:
    last = (dimensions_of(call) or [-1])[-1]
    total: Any = 0
    for part in torch.split(call.first, TILE, last):
        share = part.shape[last] / call.first.shape[last] if call.name == "mean" else 1.0
        total = total + (call.run({"self": part}).float() * share).to(call.first.dtype)
    return total


Rule = Callable[[OperatorCall, Any], Iterator[Mistake]]
"""Takes a call and its result."""
RULES: dict[Family, Rule] = {
    Family.DROPPED: dropped,
    Family.SWAPPED: swapped,
    Family.CONSTANT: constants,
    Family.OFF_BY_ONE: off_by_one,
    Family.AXIS: wrong_axis,
    Family.TRUNCATED: truncated,
}


def mistakes_in(call: OperatorCall, result: Any, roundings: tuple[Rounding, ...]) -> Iterator[tuple[Family, Mistake]]:
    """Yield every mistake that makes sense in the call; `roundings` are formats too coarse for the outputs."""
    if call.tensors or "tensors" in call.arguments:
        for family, rule in RULES.items():
            yield from ((family, mistake) for mistake in rule(call, result))
        yield from ((Family.PRECISION, mistake) for mistake in imprecise(call, roundings))
