"""Directed inputs: values at which the reference's own operators behave specially.

Randomly drawn inputs hold no NaN, no two equal elements, and nothing halfway between two integers. The operator graph
of the reference says which of these matter. The table `RULES` lists the change for each group of operators. It is
applied to the inputs that reach such an operator through views, copies and simple scaling; if none can be traced, to
all inputs of the right kind. Rules that change different elements share a case.

Each case is first tried on the reference, and kept only if the result stays defined and most elements can be judged.
Not covered: operands computed from inputs by other arithmetic, and parameters, which stay as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy
import torch

from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.operators import ORDERING, bare_name, words
from triton_agent.tools.graph.values import Reference, references_in
from triton_agent.tools.reference.input_tensors import is_plain, is_sorted, tensors_in
from triton_agent.tools.truth.distributions import NOT_FINITE, share_memory
from triton_agent.tools.truth.feeds import Change, Feed, Reach, reach_of, reduced_dims
from triton_agent.tools.truth.jumps import COMPARING, ROUNDING, WHOLE
from triton_agent.tools.truth.plan import secret_seed
from triton_agent.tools.truth.whole_numbers import (
    EQUAL,
    FAR,
    LARGE,
    REPEATED,
    ZERO,
    far_together,
    is_small,
    may_be_zero,
    may_repeat,
    move_far,
    repeat_some,
    set_equal,
    set_to_zero,
    with_pools,
)

TIES = "ties and half-way values"
NUMBERS = "whole numbers at their limits"
OFFSET = "far from zero"
LIMITS = "rows at their limits"
FAINT = "rows of many small sizes"
ENDS = "ends of the range"
RUNS = "runs of cleared flags"
BLANK_INPUT, LENGTHS = "an input of zeros", "lengths and places up to the end"
DIRECTED = (
    *(NOT_FINITE, TIES, NUMBERS, RUNS, OFFSET, LIMITS, FAINT, ENDS, BLANK_INPUT, LENGTHS),
    *(REPEATED, EQUAL, ZERO, FAR),
)
"""The directed cases, in the order in which they are made."""

OF_WHOLES = (NUMBERS, REPEATED)
"""Directed cases of integers and flags, whose changes are made at full size as well."""
BY_INPUT = ", input "
"""Stands between the kind of a directed case and the number of the input, if one input alone is changed."""
ZEROS_AT_MOST = 3
"""Maximum number of inputs of which all elements become zero, each in a case of its own."""
LEAST_WIDTH_OF_RUNS, RUNS_AT_MOST = 8, 64
"""Least width of rows of flags in which runs are cleared, and maximum number of such rows."""
NUMBERS_MET = 16
"""Maximum count of numbers that elements of one input are made equal to."""
SHARE_JUDGED = 0.5
"""A case is dropped if a smaller share of its elements can be judged."""


FIRST = words("argmax argmin max min max_pool1d max_pool2d max_pool3d adaptive_max_pool2d")
FIRST |= words("max_pool2d_with_indices max_pool3d_with_indices unique_dim _unique2 cummax cummin")
NORMS = words("native_layer_norm layer_norm native_group_norm group_norm native_batch_norm _native_batch_norm_legit")
NORMS |= words("_native_batch_norm_legit_no_training batch_norm instance_norm cudnn_batch_norm var std var_mean")
NORMS |= words("std_mean _batch_norm_with_update _batch_norm_no_update")
OF_FEATURES = words("native_layer_norm layer_norm native_group_norm group_norm")
"""Norms of the features of one sample."""
PEAKED = words("_softmax softmax _log_softmax log_softmax logsumexp _safe_softmax logcumsumexp cross_entropy_loss")
PEAKED |= words("cross_entropy")
SCALED = words(
    "rms_norm _fused_rms_norm linalg_vector_norm norm rsqrt sqrt mean sum exp log log1p div reciprocal square"
)
SCALED |= words("pow normalize cosine_similarity softplus sigmoid tanh logaddexp amax cumsum")
DIVIDED = words("div true_divide reciprocal rsqrt rms_norm _fused_rms_norm normalize cosine_similarity renorm")
DIVIDED |= NORMS - words("var std var_mean std_mean")
"""Operators that divide by a length, to which an epsilon may be added."""
CANCELLING = words("tanh expm1 log1p sigmoid softplus sinh atanh erf")
"""Operators whose usual formulas lose digits of small numbers."""
SCALING = words("mul div mul_ div_ addcmul")
PERIODIC = words("sin cos tan sinc polar")
DIVIDING = words("floor_divide remainder fmod div bitwise_right_shift bitwise_left_shift __rshift__ __lshift__ abs neg")
DIVIDING |= words("gcd lcm")
LOOKING_UP = words(
    "index index_select gather embedding take take_along_dim embedding_bag _embedding_bag nll_loss_forward"
)
LOOKING_UP |= words("_embedding_bag_forward_only index_add scatter_add bincount scatter_reduce index_reduce")
COMBINING = {"index_put": "accumulate", "_unsafe_index_put": "accumulate", "put": "accumulate", "scatter": "reduce"}
"""Operators that combine elements of one place if this argument says so. Otherwise a repeated index is undefined."""
COUNTED_FROM_THE_END = words("index take index_put put")
COUNTED_BACK_SHARE = 0.5
"""Share of indices that are counted from the end then: at full size some fifteen rows are looked at."""
LARGEST = words("amax max argmax aminmax _aminmax max_pool1d max_pool2d max_pool3d max_pool2d_with_indices")
LARGEST |= words("max_pool3d_with_indices adaptive_max_pool2d")
LEAST = words("amin min argmin")
ASKING = words("ne eq logical_not logical_and logical_or logical_xor any all count_nonzero _to_copy")
"""Operators that only ask if a whole number is zero; `_to_copy` does so if it copies to flags."""
CHOOSING = {"where": 0, "masked_fill": 1}
"""Operators that choose by flags, and the position of these among the arguments."""
WHOLE_ARITHMETIC = words("add sub rsub mul neg abs sum cumsum bitwise_and bitwise_or bitwise_xor maximum minimum clamp")
WHOLE_ARITHMETIC |= words("floor_divide remainder fmod max min amax amin relu where eq ne lt le gt ge sign")
KEEPING_WHOLE = words("sort argsort topk argmax argmin aminmax median kthvalue cummax cummin prod cumprod index_add")
KEEPING_WHOLE |= words("scatter_add scatter_reduce index_select gather take_along_dim") | WHOLE_ARITHMETIC
"""Operators that keep whole numbers whole and accept large ones, except as an index."""
MASKING = words("masked_fill where mul logical_not bitwise_not logical_and bitwise_and any all sum")
PASSED_THROUGH = words("clone contiguous _to_copy clamp clamp_min clamp_max relu to type_as detach float double abs")
SUMMING = words("sum mean var std var_mean std_mean cumsum norm linalg_vector_norm logsumexp prod nansum") | NORMS
"""Operators that sum: some valid orders of addition subtract two infinities, and compensated sums always do."""
CONVOLUTIONS = words("convolution conv1d conv2d conv3d _convolution")
PRODUCTS = words("mm addmm bmm baddbmm addbmm mv addmv dot matmul linear") | CONVOLUTIONS
ATTENTION = words("scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu")
ATTENTION |= words("_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention")
ATTENTION |= words("_scaled_dot_product_cudnn_attention _scaled_dot_product_attention_math")
SUMMING |= PRODUCTS | ATTENTION
MULTIPLYING, STEPS_OF_A_RECURRENCE = words("mul addcmul lerp"), 12
"""Operators that multiply, and how many in a row make a recurrence (`h = a * h + b`). A scan multiplies its factors
first: with an infinity and a zero among these it gives NaN, whatever they are multiplied by."""
NAN_DROPPED = words("relu hardtanh leaky_relu clamp clamp_min clamp_max maximum minimum hardswish") | FIRST | ORDERING
NAN_DROPPED |= words("amax amin")
"""Comparisons. Kernels often drop NaN in one, in an epilogue or at the end of a reduction."""
MASKED_OUT = NAN_DROPPED | words("where masked_fill softmax _softmax _safe_softmax tril triu index gather mul")
"""Operators that may hide NaN from a product: kernels skip the masked parts of the product."""
PASSING_NAN = PRODUCTS | words(
    """
    add sub rsub mul div true_divide neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal square
    pow sin cos tan tanh sigmoid erf relu gelu silu elu selu celu softplus mish leaky_relu hardtanh hardswish
    prelu _prelu_kernel log_sigmoid_forward maximum minimum clamp clamp_min clamp_max where masked_fill gt ge lt
    le eq ne isnan isinf isfinite logical_not logical_and logical_or bitwise_not bitwise_and bitwise_or amax
    amin max min argmax argmin any all sum mean cumsum var std var_mean std_mean norm linalg_vector_norm softmax
    _softmax _safe_softmax log_softmax _log_softmax logsumexp native_layer_norm layer_norm native_group_norm
    group_norm rms_norm _fused_rms_norm batch_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training cudnn_batch_norm max_pool1d max_pool2d max_pool3d
    max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d addcmul addcdiv lerp
    _to_copy to round floor ceil trunc index_select embedding sort topk kthvalue scalar_tensor glu
    nan_to_num nansum prod cumprod fmax fmin copysign signbit atan atan2 hypot sinh cosh asinh erfc isposinf isneginf
    mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy_with_logits nll_loss_forward
    hardsigmoid softshrink hardshrink threshold logaddexp logaddexp2 count_nonzero remainder fmod frac sinc xlogy
    lgamma logit asin acos atanh cummax cummin
    aminmax adaptive_max_pool2d adaptive_max_pool3d adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool3d
    logcumsumexp erfinv angle polar complex real imag digamma special_entr ldexp index_add scatter_add
    upsample_nearest1d upsample_nearest2d upsample_nearest3d
    """
)
"""Operators that propagate NaN, or define what becomes of it. Other losses, image samplers and rounding to a grid treat
NaN differently between devices; binary_cross_entropy fails an assertion on it and ends the GPU's context."""
PICKING_FROM = words("index gather take take_along_dim")
MASKING_PICKS = words("where masked_fill mul tril triu")
"""Operators that may hide what was picked at places that only stand in for others, such as -1 made 0."""
BOUNDARIES = {"bucketize": 1, "searchsorted": 0}
STILL = ("view", "movement", "allocation", "metadata")
IGNORED = -100
"""The label that torch's losses ignore by default."""

NEAR_LIMITS = 100
"""Distance from the limits of a dtype within which the whole numbers of a row are drawn."""
FEWEST_LINES = 4
"""Smallest number of samples or columns of which one is filled with an infinity."""
NEAR_END, ENDS_SHARE, FEWEST_FOR_ENDS = 0.05, 1 / 8, 8
"""Largest distance from an end of the range, as a share of it, that tells it; the share of elements that are set to
each end; and the smallest number of elements that tell a range."""
TRIED_FOR_FLAGS = 1024
"""Number of random places among which one with a flag and one without it are sought."""
MASKED_ROWS, MASKED_OF_MANY, MANY_ROWS = 16, 5, 256
"""One row in so many has all its flags set, and another one has them cleared; the second holds from so many rows on, of
which few may be looked at."""
SPREADS_AWAY = {torch.float16: 30.0, torch.bfloat16: 4.0}
"""Distance of the mean from zero in standard deviations; 1000 in float32, where E[x²] - E[x]² loses 20 of 24 bits."""
BEYOND_EXP = 120.0
"""The exponential overflows float32 at this number and is zero at its negative."""
HUGE = {torch.float16: 3e3}
"""Largest magnitude whose square can still be summed; 1e15 for other dtypes."""
HUGE_SCORE = 1e3
"""Largest magnitude if a softmax works on products. A compiler fuses the last product with the subtraction of the peak,
so the largest score errs by its own rounding: at 1e15 that exceeds the range of the exponential."""
TINY = {torch.float16: 1e-6}
"""Small magnitude: denormal in float16. In other dtypes (1e-30) the squares underflow to zero."""
FAINT_POWERS = (-3.5, -5.0, -6.5, -8.0, -9.5, -11.0, -12.5, -14.0)
"""Factors for rows as powers of ten. Near each epsilon in common use, such as 1e-5, there is one."""
TINY_DEVIATION = 1e-15
"""Small magnitude if variances are computed. On a CPU torch sums squares in double and still finds the deviation of
1e-30, which underflows in a float32 kernel; dividing by it would give a number in one and NaN in the
other."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change of the inputs of one kind that reach one of these operators."""

    case: str
    operators: frozenset[str] | None
    """None stands for every operator."""
    kind: str
    """`float`, `whole`, `flag`, or `number` for floats and complex numbers."""
    change: Change
    traced_only: bool = False
    """True to leave inputs alone that cannot be traced to the operator."""


def _quantise_half(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Give every second sample few distinct values, with the largest and the smallest repeated many times."""
    part = _every_second(tensor, 0)
    if tensor.is_floating_point():
        values = part.float()
        step = float(values.std()) / 2 if values.numel() > 1 else 0.0
        if step > 0 and math.isfinite(step):
            middle = float(values.mean())
            part.copy_(((values - middle) / step).round().clamp(-3, 3) * step + middle)
    elif part.numel():
        ordered = part.reshape(-1).sort().values
        part.clamp_(int(ordered[len(ordered) // 4]), int(ordered[3 * len(ordered) // 4]))


def _half_way(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set elements to integers, halves and their neighbours, in the units in which the operator rounds."""
    part = _every_second(tensor, 1) if feed.picked else tensor
    if not part.numel():
        return
    if feed.boundaries is not None:
        at = torch.randint(feed.boundaries.numel(), part.shape, generator=generator).to(part.device)
        part.copy_(_nudged_by_a_unit(feed.boundaries.reshape(-1).to(part)[at], generator))
        return
    if feed.scale is None:  # a 127 in each row makes a scale of max / 127 equal to one
        halves = torch.randint(-253, 254, part.shape, generator=generator).to(part) / 2
        part.copy_(halves)
        if part.dim():
            part.select(-1, 0).fill_(127.0)
        return
    whole = (part.double() * feed.scale + feed.shift).floor().clamp(-(2.0**20), 2.0**20)
    added = torch.randint(0, 2, part.shape, generator=generator).to(part.device) / 2
    part.copy_(_nudged_by_a_unit(((whole + added - feed.shift) / feed.scale).to(part.dtype), generator))


def _meet_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set a quarter of the elements equal to the values they are compared with."""
    if feed.numbers:
        at = torch.randint(len(feed.numbers), tensor.shape, generator=generator)
        met = torch.tensor(feed.numbers, dtype=torch.float64)[at].to(tensor)
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), met, tensor))
    if feed.boundaries is None or not feed.scale:
        return
    with contextlib.suppress(RuntimeError):  # the comparison uses another shape
        other = feed.boundaries.to(tensor.device).expand(tensor.shape)
        equal = (other.double() - feed.shift) / feed.scale
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), equal.to(tensor.dtype), tensor))


def _nudged_by_a_unit(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the values with two thirds of them moved to the next number up or down."""
    way = torch.randint(-1, 2, values.shape, generator=generator).to(values.device)
    moved = torch.nextafter(values, torch.where(way > 0, math.inf, -math.inf).to(values))
    return torch.where(way == 0, values, moved)


def _set_whole_offset(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Move the mean far from zero, without changing the spread."""
    spread = float(tensor.float().std()) if tensor.numel() > 1 else 0.0
    away = SPREADS_AWAY.get(tensor.dtype, 1000.0) / (1, 8, 64)[min(refused, 2)]
    tensor.add_(away * (spread or 1.0))


def _in_lines(tensor: torch.Tensor, feed: Feed) -> tuple[torch.Tensor, torch.Size]:
    """Return a view whose first dimensions number the lines that the operator reduces, and the sizes of these.

    Lines are rows if it is not known what is reduced.
    """
    inner = feed.reduced or {tensor.dim() - 1}
    outer = [dim for dim in range(tensor.dim()) if dim not in inner]
    lines = tensor.permute(*outer, *(dim for dim in range(tensor.dim()) if dim in inner))
    return lines, lines.shape[: len(outer)]


def _set_rows_off(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Shift lines so that their exponentials overflow, or are all zero, unless the peak is subtracted first."""
    lines, outer = _in_lines(tensor, feed)
    signs = 1 - 2 * (torch.arange(outer.numel()) % 2)
    if bool((tensor >= 0).all()):
        signs = signs.abs()
    lines.add_((BEYOND_EXP * signs).reshape(*outer, *(1 for _ in lines.shape[len(outer) :])).to(tensor))


def _limit_rows(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Make one line zero, one constant, one huge and one tiny; other lines stay as they are.

    After a refusal no line is huge, and none is zero or none is tiny.
    """
    lines, outer = _in_lines(tensor, feed)
    count = outer.numel()
    if tensor.dim() == 0 or count == 1:
        return
    asked = [["zero", "equal", "huge", "tiny"], ["equal", "tiny"], ["zero", "equal"]][min(refused, 2)]
    if "huge" in asked and (feed.exists_beside & PERIODIC or feed.cast_to_whole):
        asked.remove("huge")
    if feed.exists_beside & NORMS:  # the norm of a constant row is one magnified rounding error of the mean
        asked.remove("equal")
    asked = asked[: max(1, count // 2)]
    chosen = torch.randperm(count, generator=generator)[: len(asked)].tolist()
    for what, line in zip(asked, chosen):
        values = lines[tuple(int(i) for i in numpy.unravel_index(line, outer))]
        if what == "zero":
            values.zero_()
        elif what == "equal":
            values.fill_(float(values.reshape(-1)[0]))
        elif what == "huge":
            huge = largest_asked(feed.exists_beside, tensor.dtype)
            values.mul_(huge / max(1.0, float(values.abs().max())))
        else:
            tiny = TINY_DEVIATION if feed.exists_beside & NORMS else 1e-30
            values.mul_(TINY.get(tensor.dtype, tiny))


def _make_some_faint(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Multiply a third of the samples, or lines of them, by factors of many sizes.

    A small number that the reference adds to a length, or compares it with, counts where lengths are of its size only.
    """
    if tensor.dim() < 2 or tensor.dtype is torch.float16 or feed.reach.operators & CANCELLING:
        return
    axes = [0] if tensor.dim() == 2 else [0, tensor.dim() - 2, tensor.dim() - 1]
    samples = torch.randperm(tensor.shape[0], generator=generator).tolist()
    turns = torch.randperm(len(axes), generator=generator).tolist()
    for turn, axis in zip(turns, axes):
        for sample in samples[turn :: 3 * len(axes)]:
            size = 1 if axis == 0 else tensor.shape[axis]
            powers = torch.tensor(FAINT_POWERS)[torch.randint(len(FAINT_POWERS), (size,), generator=generator)]
            factors = torch.where(torch.rand(size, generator=generator) < 0.5, 1.0, 10.0**powers).to(tensor)
            tensor[sample].movedim(max(axis - 1, 0), -1).mul_(10.0 ** powers.to(tensor) if axis == 0 else factors)


def _ends_of(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return -1, 0 and 1 as far as the elements come close to them, but lie neither on them nor beyond."""
    if tensor.numel() < FEWEST_FOR_ENDS or tensor.element_size() < 2:
        return ()
    low, high = float(tensor.min()), float(tensor.max())
    if not -1 <= low < high <= 1:
        return ()
    near = (high - low) * max(NEAR_END, 3 / tensor.numel())
    return tuple(end for end, own in ((math.floor(low), low), (math.ceil(high), high)) if 0 < abs(end - own) <= near)


def _meet_ends(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set elements, and a row, to each end of the range; after a refusal elements only, to the upper or lower end."""
    ends = feed.numbers if not refused else feed.numbers[-1:] if refused == 1 else feed.numbers[:1]
    drawn = torch.rand(tensor.shape, generator=generator).to(tensor.device)
    for k, end in enumerate(ends):
        tensor.masked_fill_((drawn >= k * ENDS_SHARE) & (drawn < (k + 1) * ENDS_SHARE), end)
    rows = math.prod(tensor.shape[:-1])
    if rows < FEWEST_LINES or refused or feed.exists_beside & NORMS:  # the norm of equal numbers is rounding error
        return
    for end, row in zip(ends, torch.randperm(rows, generator=generator).tolist()):
        tensor[tuple(int(i) for i in numpy.unravel_index(row, tensor.shape[:-1]))] = end


def largest_asked(operators: Set[str], dtype: torch.dtype) -> float:
    """Return the largest magnitude of inputs at which correct kernels agree with a reference of these operators."""
    return HUGE_SCORE if makes_scores(operators) else HUGE.get(dtype, 1e15)


def makes_scores(operators: Set[str]) -> bool:
    """Return True if a softmax or a similar operator works on products."""
    return bool(operators & ATTENTION) or bool(operators & PEAKED and operators & (PRODUCTS | SCALING))


def _negate_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Negate a third of the operands of an integer division, which rounds down or toward zero."""
    if tensor.dtype is torch.uint8:
        return
    inputs = [name for name in references_in(feed.node.arguments) if name.startswith("x")]
    shifted = "shift" in bare_name(feed.node.operator) and inputs[:1] != [f"x{feed.position}"]
    if not shifted:
        tensor.copy_(torch.where(_some(tensor, generator, 1 / 3), -tensor, tensor))


def _enlarge_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Move a fifth of the elements far from zero, those of 64 bits beyond 32, if they are only used in integer
    arithmetic."""
    large = LARGE.get(tensor.dtype)
    if large is None or _is_index(feed) or feed.exists_beside - KEEPING_WHOLE - _QUIET:
        return
    moved = tensor + torch.where(_some(tensor, generator, 0.5), large, -large)
    chosen = _some(tensor, generator, 0.2) & (tensor.abs() < 1 << 28)
    tensor.copy_(torch.where(chosen, moved, tensor))


def _reach_the_end(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Draw lengths or places anew, up to the last one; after a refusal change one of them only."""
    last = int(feed.numbers[0])
    if not refused:
        tensor.copy_(torch.randint(last // 2, last + 1, tensor.shape, generator=generator))
    tensor.view(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = last


def _last_of_counted(graph: OperatorGraph, node: Node, name: str) -> int | None:
    """Return the largest length or place that the named operand can be, if it is compared with 0, 1, 2 and so on.

    `at < length` accepts the count of these numbers, `at <= place` one less.
    """
    operands = [it.name for it in node.arguments[:2] if isinstance(it, Reference)]
    if len(operands) < 2 or name not in operands:
        return None
    other = operands[1 - operands.index(name)]
    while (producer := graph.producers().get(other)) is not None and producer.kind in ("view", "movement"):
        other = next(iter(producer.references()))
    if producer is None or bare_name(producer.operator) != "arange" or producer.argument("start") not in (None, 0):
        return None
    is_length = bare_name(node.operator) in (("gt", "le") if operands[0] == name else ("ge", "lt"))
    return math.prod(producer.outputs[0].shape) - (not is_length)


def _is_index(feed: Feed) -> bool:
    return any(feed.reach.is_in(node, "index", "indices") for node in feed.reach.nodes)


def _fill_rows_at_limits(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Fill one line with integers near the lower limit of the dtype, and another with integers near the upper one."""
    lines, outer = _in_lines(tensor, feed)
    if outer.numel() < FEWEST_LINES or _is_index(feed) or feed.reach.operators - WHOLE_OPERATORS - KEEPING_WHOLE:
        return
    ends = torch.iinfo(tensor.dtype)
    near = min(NEAR_LIMITS, ends.max // 2)
    chosen = torch.randperm(outer.numel(), generator=generator)[:2].tolist()
    for number, (low, high) in zip(chosen, ((ends.min, ends.min + near), (ends.max - near, ends.max))):
        line = lines[tuple(int(i) for i in numpy.unravel_index(number, outer))]
        line.copy_(torch.randint(low, high, line.shape, generator=generator))


def _set_otherwise(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Put other numbers into a mask of zeros and ones, where the operator only asks if a number is zero."""
    if bool(((tensor == 0) | (tensor == 1)).all()):
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), 2, tensor))
        if tensor.dtype is not torch.uint8:
            tensor.copy_(torch.where(_some(tensor, generator, 0.125), -1, tensor))


def _repeat_and_count_back(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Repeat an index many times, count from the end if the operator allows it, and use the ignored label of losses."""
    first = tensor.reshape(-1)[:1].clone()
    tensor.copy_(torch.where(_some(tensor, generator, 0.25), first, tensor))
    name = bare_name(feed.node.operator)
    if name == "nll_loss_forward" or "cross_entropy" in name:
        ignored = feed.node.argument("ignore_index", IGNORED)
        if isinstance(ignored, int) and refused < 2:
            tensor.copy_(torch.where(_some(tensor, generator, 0.25), ignored, tensor))
    elif name in COUNTED_FROM_THE_END and not refused and bool((tensor >= 0).all()):
        tensor.copy_(torch.where(_some(tensor, generator, COUNTED_BACK_SHARE), -1 - tensor, tensor))


def _mask_rows(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set all flags of some rows and clear all of others; only one of the two if the reference refuses both."""
    if tensor.dim() == 0 or tensor.numel() == tensor.shape[-1]:
        return
    outer = tensor.shape[:-1]
    rows = math.prod(outer)
    count = max(1, rows // MASKED_ROWS if rows < MANY_ROWS else rows // MASKED_OF_MANY)
    chosen = torch.randperm(rows, generator=generator).numpy()
    for number, flag in enumerate((True, False)):
        if (refused == 1 and flag) or (refused == 2 and not flag):
            continue
        some = chosen[number * count : (number + 1) * count]
        tensor[tuple(torch.from_numpy(at).to(tensor.device) for at in numpy.unravel_index(some, outer))] = flag


def _clear_runs(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Clear the flags at the beginning of some rows and at the end of others, as padding does; one flag stays set.

    A sum over blocks may then begin with a block that holds nothing. Rows begin with fewer cleared flags at the second
    attempt, and with none at the last one, since another mask may hide what is left.
    """
    width = tensor.shape[-1] if tensor.dim() else 0
    rows = tensor.numel() // max(1, width)
    if width < LEAST_WIDTH_OF_RUNS or rows < 2:
        return
    at_most = width * 7 // 8, width * (7, 2, 0)[min(refused, 2)] // 8
    for number, row in enumerate(torch.randperm(rows, generator=generator)[:RUNS_AT_MOST].tolist()):
        begins = number % 2
        if not at_most[begins]:
            continue
        line = tensor[tuple(int(i) for i in numpy.unravel_index(row, tensor.shape[:-1]))]
        length = int(torch.randint(width // 4, at_most[begins] + 1, (), generator=generator))
        left, cleared = (line[length:], line[:length]) if begins else (line[:-length], line[-length:])
        cleared.fill_(False)
        if not bool(left.any()):
            left[int(torch.randint(len(left), (), generator=generator))] = True


def _uneven_offsets(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Redraw the boundaries of segments between the first and the last, so that lengths differ and one is empty."""
    if tensor.dim() != 1 or tensor.numel() < 4 or int(tensor[0]) != 0 or bool((tensor.diff() < 0).any()):
        return
    last = int(tensor[-1])
    inner = torch.randint(0, last + 1, (tensor.numel() - 2,), generator=generator).sort().values
    inner[1] = inner[0] if not refused else inner[1]
    tensor[1:-1] = inner.to(tensor)


def _special(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """A placeholder for `plant`: the values to plant are found by running the reference."""


_QUIET = words(
    "view _unsafe_view reshape transpose t permute expand slice select squeeze unsqueeze alias detach clone contiguous "
    "split unbind cat stack flatten unflatten lift_fresh scalar_tensor full zeros ones zeros_like empty _to_copy copy"
)

SHIFTS = words("bitwise_right_shift bitwise_left_shift __rshift__ __lshift__")
WHOLE_OPERATORS = (WHOLE_ARITHMETIC | _QUIET | SHIFTS) - words("floor_divide remainder fmod")
"""Operators that accept integers of any size. A shift accepts only small counts."""

RULES: tuple[Rule, ...] = (
    Rule(case=NOT_FINITE, operators=None, kind="number", change=_special),
    Rule(case=TIES, operators=ORDERING | FIRST, kind="float", change=_quantise_half),
    Rule(case=TIES, operators=ORDERING | FIRST, kind="whole", change=_quantise_half, traced_only=True),
    Rule(case=TIES, operators=COMPARING, kind="float", change=_meet_some, traced_only=True),
    Rule(case=TIES, operators=COMPARING, kind="whole", change=_meet_some, traced_only=True),
    Rule(case=TIES, operators=ROUNDING | {"div", "_to_copy"}, kind="float", change=_half_way),
    Rule(case=NUMBERS, operators=DIVIDING, kind="whole", change=_negate_some, traced_only=True),
    Rule(case=NUMBERS, operators=KEEPING_WHOLE, kind="whole", change=_enlarge_some, traced_only=True),
    Rule(case=NUMBERS, operators=LARGEST | LEAST, kind="whole", change=_fill_rows_at_limits, traced_only=True),
    Rule(
        case=NUMBERS,
        operators=LOOKING_UP | COMBINING.keys(),
        kind="whole",
        change=_repeat_and_count_back,
        traced_only=True,
    ),
    Rule(case=NUMBERS, operators=ASKING, kind="whole", change=_set_otherwise, traced_only=True),
    Rule(case=NUMBERS, operators=MASKING, kind="flag", change=_mask_rows),
    Rule(case=RUNS, operators=MASKING | ATTENTION, kind="flag", change=_clear_runs),
    Rule(case=NUMBERS, operators=None, kind="whole", change=_uneven_offsets),
    Rule(case=OFFSET, operators=PEAKED | {"amax", "max"}, kind="float", change=_set_rows_off),
    Rule(case=OFFSET, operators=NORMS, kind="float", change=_set_whole_offset),
    Rule(case=LIMITS, operators=NORMS | PEAKED | SCALED, kind="float", change=_limit_rows),
    Rule(case=FAINT, operators=DIVIDED, kind="number", change=_make_some_faint),
    Rule(case=ENDS, operators=None, kind="float", change=_meet_ends),
    Rule(case=BLANK_INPUT, operators=None, kind="number", change=set_to_zero),
    Rule(case=LENGTHS, operators=words("lt le gt ge"), kind="whole", change=_reach_the_end, traced_only=True),
    Rule(case=REPEATED, operators=None, kind="whole", change=repeat_some),
    Rule(case=EQUAL, operators=None, kind="whole", change=set_equal),
    Rule(case=EQUAL, operators=None, kind="flag", change=set_equal),
    Rule(case=ZERO, operators=None, kind="whole", change=set_to_zero),
    Rule(case=ZERO, operators=None, kind="flag", change=set_to_zero),
    Rule(case=FAR, operators=None, kind="whole", change=move_far),
)
"""If two rules would change one input in the same case, only the first applies, except for ties and halves."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Directed:
    """The directed cases that one problem gets."""

    feeds: dict[str, tuple[tuple[Rule, Feed], ...]]
    """For each directed case, the rules and the inputs they change. A kind in `DIRECTED` may have several cases."""
    picks: bool
    """True if positions of equal elements may be returned; torch does not specify them for all operators."""
    orders: bool
    """True if elements are ordered; the position of NaN in an order is not specified."""
    sums: bool
    """True if elements are summed, or factors multiplied step by step; an infinity may become NaN on the way."""
    recurs: bool = False
    """True for a recurrence. Its first factor meets a state of zero, and a kernel may leave it out, with its NaN."""
    neutral: float | None = None
    """The infinity that all elements exceed if the largest is sought, or that exceeds all if the least is."""
    pointwise: bool = False
    """True if nothing is reduced or multiplied as matrices, so that an infinity stays where it arises."""
    cuts: bool = False
    """True if a triangle of a matrix is cut off."""
    chosen_by: tuple[int, ...] = ()
    """Inputs whose flags choose between two tensors."""

    def cases(self, kinds: Sequence[str]) -> list[str]:
        """Return the names of the directed cases of these kinds, in this order."""
        return [name for kind in kinds for name in self.feeds if kind_of(name) == kind]

    def change(self, case: str, inputs: list[Any], generator: torch.Generator, refused: int) -> None:
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for rule, feed in self.feeds[case]:
                if feed.beside is not None and feed.boundaries is not None:
                    now = tensors[feed.beside].reshape(feed.boundaries.shape)
                    feed = dataclasses.replace(feed, boundaries=now)
                rule.change(tensors[feed.position], feed, generator, refused)

    def plant(
        self, inputs: list[Any], values: Sequence[float], generator: torch.Generator, *, twice: bool = False
    ) -> None:
        """Write each value once into each floating-point input, no two in the same row or column.

        With `twice`, NaN is also written beside the first NaN: a kernel may count them. Complex inputs get NaN only, in
        both parts, since products with one part treat the other differently.
        """
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for _, feed in self.feeds[NOT_FINITE]:
                tensor = tensors[feed.position]
                orders = [torch.randperm(size, generator=generator).tolist() for size in tensor.shape]
                for k, value in enumerate(values):
                    at = tuple(order[k % len(order)] for order in orders)
                    if tensor.is_complex() and not math.isnan(value):
                        continue
                    planted = torch.tensor(complex(value, value) if tensor.is_complex() else value)
                    tensor[at] = planted
                    if twice and math.isnan(value) and at and tensor.shape[-1] > 1:
                        tensor[(*at[:-1], (at[-1] + 1) % tensor.shape[-1])] = planted
                if any(map(math.isnan, values)) and tensor.is_floating_point():
                    self._plant_nan_to_hide(tensor, tensors, generator)
            if self.recurs and any(map(math.isnan, values)):
                self._plant_nan_first(tensors, generator)

    def _plant_nan_first(self, tensors: Sequence[torch.Tensor], generator: torch.Generator) -> None:
        """Write NaN at the beginning of each dimension of each input, where inputs of its shape hold no NaN."""
        given = [tensors[feed.position] for _, feed in self.feeds[NOT_FINITE]]
        for tensor in (it for it in given if it.is_floating_point()):
            for axis in range(tensor.dim()):
                first = torch.stack([it.select(axis, 0) for it in given if it.shape == tensor.shape])
                free = (~first.isnan().any(0)).nonzero().tolist()
                if free:
                    at = free[int(torch.randint(len(free), (), generator=generator))]
                    tensor[(*at[:axis], 0, *at[axis:])] = math.nan

    def _plant_nan_to_hide(
        self, tensor: torch.Tensor, tensors: Sequence[torch.Tensor], generator: torch.Generator
    ) -> None:
        """Write NaN where the reference may leave elements out: in two corners, and below a flag of each kind."""
        if self.cuts and tensor.dim() > 1:
            first = (0,) * (tensor.dim() - 2)
            tensor[(*first, 0, -1)] = tensor[(*first, -1, 0)] = math.nan
        for flags in (tensors[position] for position in self.chosen_by):
            with contextlib.suppress(RuntimeError):  # shapes that do not broadcast
                tried = [torch.randint(size, (TRIED_FOR_FLAGS,), generator=generator) for size in tensor.shape]
                found = flags.expand(tensor.shape)[tuple(tried)].tolist() if tried else []
                for kind in set(found):
                    tensor[tuple(int(places[found.index(kind)]) for places in tried)] = math.nan

    def fill_lines(self, inputs: list[Any], value: float, generator: torch.Generator) -> None:
        """Fill a sample and a column of each floating-point input with this infinity, if there are several of them.

        Those with NaN or with the other infinity stay as they are.
        """
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for _, feed in self.feeds[NOT_FINITE]:
                tensor = tensors[feed.position]
                for axis in {next((i for i, size in enumerate(tensor.shape) if size > 1), -1), tensor.dim() - 1}:
                    if axis >= 0 and not tensor.is_complex() and tensor.shape[axis] >= FEWEST_LINES:
                        _fill_line(tensor, axis, value, generator)


def kind_of(case: str) -> str:
    """Return the kind, one of `DIRECTED`, of a directed case."""
    return case.partition(BY_INPUT)[0]


def _fill_line(tensor: torch.Tensor, axis: int, value: float, generator: torch.Generator) -> None:
    """Fill one line across the axis with this infinity; a line with NaN or the other infinity is not chosen."""
    holds_others = (tensor.isnan() | (tensor == -value)).movedim(axis, 0).reshape(tensor.shape[axis], -1).any(1)
    free = (~holds_others).nonzero().flatten()
    if len(free):
        tensor.select(axis, int(free[int(torch.randint(len(free), (1,), generator=generator))])).fill_(value)


def directed(graph: OperatorGraph, inputs: list[Any], known: dict[str, torch.Tensor]) -> Directed:
    """Find the directed cases from the graph of one call; `known` holds parameters and buffers by name."""
    tensors = list(tensors_in(inputs))
    names = frozenset(bare_name(node.operator) for node in graph.nodes)
    orders = bool(names & ORDERING)
    recurs = _products_in_a_row(graph) >= STEPS_OF_A_RECURRENCE
    sums = recurs or bool(names & SUMMING)
    picks = orders or bool(names & FIRST)
    casts = any(_makes_whole(node, graph) for node in graph.nodes)
    found: dict[str, tuple[tuple[Rule, Feed], ...]] = {}
    if share_memory(inputs) or len(tensors) != len(graph.inputs):
        return Directed(feeds=found, picks=picks, orders=orders, sums=sums)
    reaches = [reach_of(graph, f"x{position}") for position in range(len(tensors))]
    for case in DIRECTED:
        feeds: dict[int, tuple[Rule, Feed]] = {}
        halves: dict[int, tuple[Rule, Feed]] = {}
        for rule in (rule for rule in RULES if rule.case == case):
            for feed in _feeds(graph, rule, tensors, known):
                feed = dataclasses.replace(
                    feed,
                    exists_beside=names,
                    reach=reaches[feed.position],
                    reduced=_reduced(graph, feed.node, reaches[feed.position], tensors[feed.position]),
                    cast_to_whole=casts,
                    picked=feed.position in feeds,
                )
                taken = halves if rule.change is _half_way else feeds
                if case == NUMBERS and feed.position in feeds:  # these rules change few elements, so two may apply
                    taken = halves
                held = taken.setdefault(feed.position, (rule, feed))[1]
                if rule.change is _meet_some and set(feed.numbers) - set(held.numbers):
                    numbers = (*held.numbers, *feed.numbers)[:NUMBERS_MET]
                    taken[feed.position] = (taken[feed.position][0], dataclasses.replace(held, numbers=numbers))
        kept = _fitting(case, [*feeds.values(), *halves.values()], graph, tensors)
        if case in (ZERO, BLANK_INPUT) and len(kept) > 1:
            found |= {f"{case}{BY_INPUT}{feed.position}": ((rule, feed),) for rule, feed in kept[:ZEROS_AT_MOST]}
        elif kept:
            found[case] = tuple(kept)
    return Directed(
        feeds=found,
        picks=picks,
        orders=orders,
        sums=sums,
        recurs=recurs,
        neutral=-math.inf if names & LARGEST else math.inf if names & LEAST else None,
        pointwise=all(node.kind in (*STILL, "arithmetic") for node in graph.nodes),
        cuts=bool(names & {"tril", "triu"}),
        chosen_by=tuple(sorted(_choosing_flags(graph, tensors))),
    )


def _reduced(graph: OperatorGraph, node: Node, reach: Reach, tensor: torch.Tensor) -> frozenset[int]:
    """Return the dimensions of an input that this node reduces, or else the first node in reach that reduces any."""
    found = (reduced_dims(graph, it, tensor.shape) for it in (node, *reach.nodes))
    return next(filter(None, found), frozenset())


def _is_reduced_to_one(reach: Reach, tensor: torch.Tensor) -> bool:
    """Return True if the input is a single number, or if an operator makes one of all its elements."""
    made = [math.prod(node.outputs[0].shape) for node in reach.nodes if node.kind == "reduction" and node.outputs]
    return tensor.numel() == 1 or 1 in made


def _products_in_a_row(graph: OperatorGraph) -> int:
    """Return how many products follow each other at most, each with the result of the one before."""
    counts: dict[str, int] = {}
    for node in graph.nodes:
        count = max((counts.get(name, 0) for name in node.references()), default=0)
        count += bare_name(node.operator) in MULTIPLYING
        counts |= {node.output_name(k): count for k in range(len(node.outputs))}
    return max(counts.values(), default=0)


def _fitting(
    case: str, feeds: list[tuple[Rule, Feed]], graph: OperatorGraph, tensors: Sequence[torch.Tensor]
) -> list[tuple[Rule, Feed]]:
    """Return those feeds that can be changed as the case asks, with the numbers that their elements are set to."""
    if case == NOT_FINITE:
        return [(rule, feed) for rule, feed in feeds if passes_nan_on(graph, feed.reach)]
    if case == ENDS:
        return _with_ends(feeds, tensors)
    if case == BLANK_INPUT:  # of a single tensor, samples of zeros are enough, unless all of it is reduced at once
        return [it for it in feeds if len(feeds) > 1 or _is_reduced_to_one(it[1].reach, tensors[it[1].position])]
    if case == LENGTHS:
        return [(rule, feed) for rule, feed in feeds if feed.numbers and _ends_before(tensors[feed.position], feed)]
    if case == FAR:
        large = far_together(graph, [feed.position for _, feed in feeds if is_small(tensors[feed.position])])
        return [(rule, feed) for rule, feed in feeds if feed.position in large]
    return _of_whole_numbers(case, feeds, tensors) if case in (REPEATED, EQUAL, ZERO) else feeds


def _ends_before(tensor: torch.Tensor, feed: Feed) -> bool:
    """Return True if lengths or places as given stay below the last one. Sorted ones may be offsets."""
    is_free = tensor.is_contiguous() and (tensor.numel() < 3 or not is_sorted(tensor))
    return is_free and feed.scale == 1 and not feed.shift and bool((tensor < feed.numbers[0]).all())


def _with_ends(feeds: Sequence[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]) -> list[tuple[Rule, Feed]]:
    """Return the feeds that have a range with ends.

    On a GPU those are left out that become an index, since an end may be the first one out of bounds.
    """
    found = []
    for rule, feed in feeds:
        tensor, ends = tensors[feed.position], _ends_of(tensors[feed.position])
        if ends and not (tensor.is_cuda and feed.reach.operators & (LOOKING_UP | COMBINING.keys())):
            found.append((rule, dataclasses.replace(feed, numbers=ends)))
    return found


def _of_whole_numbers(
    case: str, feeds: Sequence[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]
) -> list[tuple[Rule, Feed]]:
    """Return those feeds whose elements may be equal, or zero if the case asks for zeros, with the numbers to use."""
    kept = []
    for rule, feed in sorted(feeds, key=lambda it: it[1].position):
        tensor = tensors[feed.position]
        norms = NORMS - OF_FEATURES if feed.reach.operators & LOOKING_UP else NORMS  # rows that are looked up vary
        is_alone = case == ZERO and tensor.numel() == 1
        if is_alone or may_repeat(tensor, feed.reach, norms):
            allows_zero = may_be_zero(tensor, feed.reach, LOOKING_UP | COMBINING.keys())
            if allows_zero or case != ZERO:
                kept.append((rule, dataclasses.replace(feed, may_be_zero=allows_zero)))
    pooled = with_pools([feed for _, feed in kept], tensors, torch.Generator().manual_seed(secret_seed()))
    rules = {feed.position: rule for rule, feed in kept}
    return [(rules[feed.position], feed) for feed in pooled]


def _choosing_flags(graph: OperatorGraph, tensors: Sequence[torch.Tensor]) -> set[int]:
    """Return the inputs whose flags, or their opposite, choose between two tensors."""
    found = set[int]()
    for node in graph.nodes:
        at = CHOOSING.get(bare_name(node.operator))
        waiting = list(references_in(node.arguments[at : at + 1])) if at is not None else []
        while waiting:
            name = waiting.pop()
            if name in graph.inputs:
                position = int(name.removeprefix("x"))
                found |= {position} if tensors[position].dtype is torch.bool else set()
            producer = graph.producers().get(name)
            if producer is not None and (producer.kind == "view" or "not" in bare_name(producer.operator)):
                waiting += references_in(producer.arguments)
    return found


def passes_nan_on(graph: OperatorGraph, reach: Reach) -> bool:
    """Return True if NaN in the source of this reach must come to the output.

    It need not beside masked products, of which kernels skip parts, and in a table of which elements may be masked out.
    It may do anything if it is cast to an integer, or decides about a place.
    """
    computing = [node for node in reach.nodes if node.kind not in STILL]
    picking = [node for node in computing if _only_picks_from(node, reach)]
    found = {bare_name(node.operator) for node in computing}
    unknown = {bare_name(node.operator) for node in computing if node not in picking} - PASSING_NAN
    whole = any(_makes_whole(node, graph) for node in reach.nodes)
    heavy = any(node.kind in ("heavy", "random") and bare_name(node.operator) not in PRODUCTS for node in reach.nodes)
    everything = {bare_name(node.operator) for node in graph.nodes if node.kind not in STILL}
    masked = bool(found & PRODUCTS and everything & MASKED_OUT) or bool(everything & PRODUCTS and found & MASKED_OUT)
    masked |= bool(picking and found & MASKING_PICKS)
    return not (whole or heavy or masked or graph.data_dependent or unknown or _uses_positions(graph, reach))


def _only_picks_from(node: Node, reach: Reach) -> bool:
    """Return True if the node picks elements of a tensor that depends on the source, at places that do not."""
    return bare_name(node.operator) in PICKING_FROM and not reach.is_in(node, "index", "indices")


def _uses_positions(graph: OperatorGraph, reach: Reach) -> bool:
    """Return True if the position of a maximum is used: with several NaN it is not specified."""
    used = {name for node in graph.nodes for name in node.references()}
    for node in reach.nodes:
        name = bare_name(node.operator)
        if (name in ("argmax", "argmin") and node.output_name() in used) or (
            name in ("max", "min", "cummax", "cummin") and len(node.outputs) > 1 and node.output_name(1) in used
        ):
            return True
    return False


def _makes_whole(node: Node, graph: OperatorGraph) -> bool:
    values = graph.values()
    taken = [values[name] for name in node.references() if name in values]
    cast = bare_name(node.operator) in ("_to_copy", "to", "copy")
    return cast and any("float" in meta.dtype for meta in taken) and any("int" in meta.dtype for meta in node.outputs)


def _feeds(
    graph: OperatorGraph, rule: Rule, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]
) -> list[Feed]:
    """Return the inputs of the rule's kind that reach one of its operators.

    If none is traced to an operator, all of them are taken to reach the last one, unless the rule needs traced inputs.
    """
    fitting = [i for i, tensor in enumerate(tensors) if _fits(tensor, rule.kind)]
    if not graph.nodes or not fitting:
        return []
    if rule.operators is None:
        return [Feed(position=i, node=graph.nodes[0]) for i in fitting]
    asked = [node for node in graph.nodes if _is_asked(node, rule, graph)]
    found = [
        _with_boundaries(
            graph, Feed(position=position, node=node, scale=scale, shift=shift), name, rule, tensors, known
        )
        for node in asked
        for name in dict.fromkeys(references_in(node.arguments))
        for position, scale, shift in _traced(graph, name, 1.0, 0.0)
        if position in fitting
    ]
    if asked and not found and not rule.traced_only:
        return [Feed(position=i, node=asked[-1]) for i in fitting]
    return found


def _with_boundaries(
    graph: OperatorGraph,
    feed: Feed,
    name: str,
    rule: Rule,
    tensors: Sequence[torch.Tensor],
    known: dict[str, torch.Tensor],
) -> Feed:
    """Add the values at which the operator jumps, or those that `name` is compared with if the rule asks for them."""
    if rule.change is _reach_the_end:
        last = _last_of_counted(graph, feed.node, name)
        return dataclasses.replace(feed, numbers=() if last is None else (last,))
    if rule.change is _meet_some:
        return _beside(graph, feed, name, tensors, known)
    return dataclasses.replace(feed, boundaries=_boundaries(feed.node, tensors, known))


def _fits(tensor: torch.Tensor, kind: str) -> bool:
    own = "float" if tensor.is_floating_point() else "flag" if tensor.dtype is torch.bool else "whole"
    if kind == "number":
        own = kind if own == "float" or tensor.is_complex() else own
    return own == kind and is_plain(tensor) and tensor.numel() > 0 and (kind != "whole" or tensor.dtype in WHOLE)


def _is_asked(node: Node, rule: Rule, graph: OperatorGraph) -> bool:
    name = bare_name(node.operator)
    if rule.operators is None or name not in rule.operators:
        return False
    if rule.change is _half_way and name == "div":
        return node.argument("rounding_mode") is not None
    if rule.change is _half_way and name == "_to_copy":
        return _makes_whole(node, graph)
    if name == "div" and rule.change is _negate_some:
        return node.argument("rounding_mode") is not None
    if rule.change is _set_rows_off and name not in PEAKED:  # a softmax by hand subtracts the largest number first
        return any(bare_name(it.operator) in ("exp", "exp2") for it in graph.nodes)
    if rule.change is _set_otherwise:
        beside = [it for it in graph.nodes if not {*it.references()}.isdisjoint(node.references())]
        return all(
            bare_name(it.operator) in ASKING and (it.outputs[0].dtype == "bool" or "count" in it.operator)
            for it in beside
        )
    return name not in COMBINING or bool(node.argument(COMBINING[name]))


def _traced(graph: OperatorGraph, name: str, scale: float, shift: float) -> Iterator[tuple[int, float, float]]:
    """Yield the inputs that this value comes from, with the factor and shift applied on the way."""
    if name in graph.inputs:
        yield int(name.removeprefix("x")), scale, shift
        return
    node = graph.producers().get(name)
    if node is None:
        return
    operator = bare_name(node.operator)
    references = list(references_in(node.arguments))
    if node.kind in ("view", "movement") or operator in PASSED_THROUGH:
        for other in references[:1] if operator in PASSED_THROUGH else references:
            yield from _traced(graph, other, scale, shift)
        return
    number = next((arg for arg in node.arguments if isinstance(arg, (int, float)) and not isinstance(arg, bool)), None)
    if operator == "neg" and references:
        yield from _traced(graph, references[0], -scale, shift)
    if number is None or len(references) != 1 or not isinstance(node.arguments[0], Reference):
        return
    if operator == "mul" and number:
        yield from _traced(graph, references[0], scale * number, shift)
    elif operator in ("div", "true_divide") and number and node.argument("rounding_mode") is None:
        yield from _traced(graph, references[0], scale / number, shift)
    elif operator in ("add", "sub") and len(node.arguments) == 2:
        yield from _traced(graph, references[0], scale, shift + scale * (number if operator == "add" else -number))


def _boundaries(node: Node, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]) -> torch.Tensor | None:
    position = BOUNDARIES.get(bare_name(node.operator))
    argument = node.arguments[position] if position is not None and len(node.arguments) > position else None
    if not isinstance(argument, Reference):
        return None
    if argument.name.startswith("x"):
        return tensors[int(argument.name.removeprefix("x"))]
    return known.get(argument.name.partition(":")[2])


def _beside(
    graph: OperatorGraph, feed: Feed, name: str, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]
) -> Feed:
    """Add the other operand of a comparison: a number, or an input or parameter that it is a view of."""
    others = [other for other in references_in(feed.node.arguments) if other != name]
    if not others and feed.scale:
        numbers = [it for it in feed.node.arguments[:2] if isinstance(it, int | float) and not isinstance(it, bool)]
        sound = [float(number - feed.shift) / feed.scale for number in numbers if math.isfinite(number)]
        whole = not tensors[feed.position].is_floating_point()
        return dataclasses.replace(feed, numbers=tuple(it for it in sound if it.is_integer() or not whole))
    if len(others) != 1:
        return feed
    seen = [others[0]]
    while (node := graph.producers().get(seen[-1])) is not None and node.kind == "view":
        seen.append(next(iter(node.references())))
    origin = seen[-1]
    position = int(origin.removeprefix("x")) if origin in graph.inputs else None
    found = known.get(origin.partition(":")[2]) if position is None else tensors[position]
    if found is None:
        return feed
    values = graph.values()
    shapes = [values[it].shape for it in seen if it in values and math.prod(values[it].shape) == found.numel()]
    shape = shapes[0] if shapes else found.shape
    return dataclasses.replace(feed, boundaries=found.reshape(shape), beside=position)


def _every_second(tensor: torch.Tensor, start: int) -> torch.Tensor:
    """Return a view of every second index along the first dimension with several."""
    axis = next((i for i, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None:
        return tensor if start == 0 else tensor.reshape(-1)[:0]
    return tensor[(slice(None),) * axis + (slice(start, None, 2),)]


def _some(tensor: torch.Tensor, generator: torch.Generator, share: float) -> torch.Tensor:
    return (torch.rand(tensor.shape, generator=generator) < share).to(tensor.device)


__all__ = ["COMPARING", "DIRECTED", "NOT_FINITE", "TIES", "Directed", "directed"]
