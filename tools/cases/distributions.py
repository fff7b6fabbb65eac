"""Input distributions and randomised parameters, to catch kernels that pass by luck.

A file's own inputs ("as given") are often tame: normal, positive, of one magnitude. Other magnitudes, signs, outliers
and orders expose a kernel that skips a step. Default parameters (a norm's weight of one, a bias of zero) hide such
steps too. Both remedies can be disabled, so that an audit can measure their effect. Booleans may be flipped, since both
values are valid. Other integers are only redrawn by the seed, since only the file knows which values are valid, with
two exceptions: consecutive numbers (positions) may be reordered, and equal numbers (full lengths) may be lowered. If
the reference refuses a distribution, it is not used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from triton_agent.tools.reference.input_tensors import is_plain, tensors_in, whole_memory
from triton_agent.tools.reference.reference import Reference

AS_GIVEN = "as given"

OUTLIERS = 8
"""Number of outliers at random places of each tensor, besides those at both ends of the tensor and of one row."""

OUTLIER_SPREADS = 100.0
"""Magnitude of an outlier in standard deviations: far outside any sample, and small enough to stay finite."""
LEAST_SPREADS = 5.0
"""Magnitude of the smallest outlier in standard deviations, so that outliers begin where samples end."""

OVERFLOW_MARGIN = 8
"""Outliers stay below the dtype's largest value by this factor; float16 ends at 65504."""

BLANK, FLAGS, WHOLE = "samples of zeros", "flags flipped", "positions and lengths changed"
POSITIVE, FEW = "all positive", "few values"
OPPOSED, OPPOSED_BACK = "first input positive, others negative", "first input negative, others positive"
OPPOSED_FAR = "first input positive, others negative, all of them large"
OPPOSING = (OPPOSED, OPPOSED_BACK, OPPOSED_FAR)
"""Scores that are sums of products are then all negative, and at last so negative that their exponentials are zero.
Parameters count as other inputs."""
FAR_TIMES = 6.0
"""Factor on each operand of such scores: 64 products make about -5 of ordinary numbers, and -180 with it."""
STRUCTURED, QUIETER = "rows of many kinds", "rows of many kinds, none of them loud"
"""What random rows never are: sorted, periodic, smooth, sparse, mostly of one sign, some spreads from zero, repeated.
The second is for references that overflow with the first."""
LEAST_STRUCTURED, PERIOD, LOUD, SPREADS_APART = 8, 8, 50.0, 12.0
"""Fewest elements of such rows, the period of periodic ones, the factor of loud ones, and how far away others are."""
ROUNDED = "rounded to fewer bits"
"""Numbers of float32 often come from bfloat16 or float16, whose last bits are then zero."""
WITH_EMPTY = "positions and lengths changed, one of them to zero"
"""Replaces `WHOLE` if the reference accepts it; many references divide by a length, which must then not be zero."""
EXTREMES, NOT_FINITE = "extremes", "NaN and infinities"
FAINT = 1e-2
"""Smaller constant parameters are scales that disable a branch at first (1e-4 to 1e-6 are common). At their own
magnitude, a kernel that skips the branch would still be accurate enough."""
MODERATE, MODERATE_SPREADS = "moderate extremes", 25.0
"""Distribution for references that overflow with the usual outliers (exponentials), and its largest magnitude."""
FEWEST, SOME = 2, 5
"""Equal whole numbers below the first are no lengths, but a start position or a type. They are replaced by numbers up
to the second."""
FLIPPED_SHARE = 0.3
"""Share of boolean inputs to flip: enough to change a mask of ones, too few to mask a whole row."""

_COMPUTE = {torch.float64: torch.float64, torch.complex64: torch.complex64, torch.complex128: torch.complex128}

FAR_SPREADS = 16.0
"""Distance from zero, in standard deviations, of samples that are far above it."""

_Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""Returns new values for a tensor's values, in a dtype that is wide enough to compute in."""


def _plant(values: torch.Tensor, generator: torch.Generator, spreads: float = OUTLIER_SPREADS) -> torch.Tensor:
    """Plant large values at random places and at both ends of the tensor and of one row; negate the last sample.

    All magnitudes differ, since sorting does not define the order of equal elements. The maximum of a negative sample
    exposes a wrong fill value beyond the end of a row. Data of one sign (probabilities, variances) keeps its sign,
    since the other one may be outside the module's domain.
    """
    count = values.numel()
    width = values.shape[-1] if values.dim() else 1
    row = int(torch.randint(count // width, (1,), generator=generator)) * width
    scattered = torch.randint(count, (OUTLIERS,), generator=generator).tolist()
    places = torch.tensor([0, count - 1, row, row + width - 1, *scattered])
    signs = torch.randint(0, 2, (len(places),), generator=generator) * 2 - 1
    # A fourth are about as large as possible; the others are spread evenly by logarithm, down to ordinary samples.
    evenly = (torch.arange(len(places)) + torch.rand(len(places), generator=generator)) / len(places)
    powers = (evenly * 4 / 3 - 1 / 3).clamp(min=0.0) + 0.1 * evenly
    least = math.log(LEAST_SPREADS / spreads)
    sizes = signs * torch.exp(least * powers / 1.1)[torch.randperm(len(places), generator=generator)]
    if not values.is_complex() and bool((values >= 0).all()):
        sizes = sizes.abs()
    elif not values.is_complex() and bool((values <= 0).all()):
        sizes = -sizes.abs()
    sound = values[torch.isfinite(values)]
    spread = float(sound.std()) if sound.numel() > 1 else 0.0
    largest = float(sound.abs().max()) if sound.numel() else 0.0
    planted = values.reshape(-1).clone()
    planted[places.to(values.device)] = (spreads * (spread or largest or 1.0) * sizes).to(values)
    planted = planted.reshape(values.shape)
    axis = first_with_several(planted)
    if axis is None or not has_both_signs(planted):
        return planted
    size = planted.shape[axis]
    return torch.cat([planted.narrow(axis, 0, size - 1), -planted.narrow(axis, size - 1, 1).abs()], axis)


def has_both_signs(values: torch.Tensor) -> bool:
    return not values.is_complex() and bool((values > 0).any() and (values < 0).any())


def first_with_several(values: torch.Tensor) -> int | None:
    """Return the first dimension with several elements, which is taken for that of the samples."""
    return next((i for i, size in enumerate(values.shape) if size > 1), None)


def _shuffle(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    here = torch.Generator(values.device).manual_seed(int(torch.randint(1 << 62, (1,), generator=generator)))
    order = torch.randperm(values.numel(), generator=here, device=values.device)
    return values.reshape(-1)[order].reshape(values.shape)


def _blank(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Set one sample to zero, which is what padding looks like, and where an epsilon matters.

    In other samples, the first half becomes negative zero, or the second half, or all elements but one becomes zero:
    this exposes kernels that look at a few elements to detect a sample of zeros.
    """
    axis = first_with_several(values)
    if axis is None:
        return values
    samples = values.movedim(axis, 0).clone().reshape(values.shape[axis], -1)
    width = samples.shape[1]
    half, one = max(1, width // 2), int(torch.randint(width, (1,), generator=generator))
    zeroed = [(slice(0, width), 0.0), (slice(0, half), -0.0)]
    if width > 1:
        zeroed += [(slice(half, width), -0.0), (slice(one), 0.0), (slice(one + 1, width), 0.0)]
    chosen = torch.randperm(len(samples), generator=generator)[: len(samples) - 1].tolist()
    for row, (place, zero) in zip([*chosen[:4], *chosen[3:4]], zeroed):
        samples[row, place] = zero
    moved = values.movedim(axis, 0).shape
    return samples.reshape(moved).movedim(0, axis)


def _positive(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Drop the signs; every second sample is also moved far from zero."""
    if not has_both_signs(values):
        return values
    sizes = values.abs()
    axis = first_with_several(values)
    if axis is not None:
        spread = float(values.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
        sizes.movedim(axis, 0)[1::2] += FAR_SPREADS * spread
    return sizes


def _structured(values: torch.Tensor, generator: torch.Generator, loud: float = LOUD) -> torch.Tensor:
    """Give each row a structure; rows of one sign get only those that change no sign."""
    width = values.shape[-1] if values.dim() else 0
    if values.is_complex() or width < LEAST_STRUCTURED:
        return values
    rows = values.reshape(-1, width).clone()
    spread = float(values.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    places = torch.arange(width, device=values.device)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator).to(values)

    def away(part: torch.Tensor) -> torch.Tensor:
        signs = 1 - 2 * (drawn(len(part), 1) < 0.5).to(part)
        return part + spread * signs * SPREADS_APART ** drawn(len(part), 1)

    def wave(part: torch.Tensor) -> torch.Tensor:
        steps = 0.15 + 0.35 * drawn(len(part), 1)
        return spread * torch.sin(steps * places + 6 * drawn(len(part), 1))

    def shaped(part: torch.Tensor) -> torch.Tensor:
        rising = part.abs().sort(-1).values
        one, other = rising[:, ::2], rising[:, 1::2]
        peak, valley = torch.cat([one, other.flip(-1)], -1), torch.cat([one.flip(-1), other], -1)
        kinds = torch.stack([rising, rising.flip(-1), peak, valley])
        return kinds[(len(kinds) * drawn(len(part))).long(), torch.arange(len(part), device=part.device)]

    changes: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda part: part.sort(-1).values,
        lambda part: part.sort(-1, descending=True).values,
        lambda part: part[:, places % PERIOD],
    ]
    if has_both_signs(values):
        changes = [
            lambda part: part.abs().sort(-1).values,
            *changes,
            lambda part: part.relu(),
            lambda part: part * (drawn(*part.shape) < 0.5),
            lambda part: torch.where(drawn(*part.shape) < 0.6, part.abs(), part),
            lambda part: part.abs() * (1 - 2 * (places % 2)),
            lambda part: loud * part,
            *(wave, wave, away, away, away, shaped),
        ]
    order = torch.randperm(len(rows), generator=generator).to(values.device)
    for number, change in enumerate(changes):
        chosen = order[number :: len(changes) + 1]
        if len(chosen):
            rows[chosen] = change(rows[chosen]).to(rows.dtype)
    repeated = order[len(changes) :: len(changes) + 1]
    rows[repeated] = rows[repeated - 1]
    return rows.reshape(values.shape)


def _few(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round to multiples of a power of two near the spread: whole numbers, counts and repeated elements are common.

    Only signs are left of some samples.
    """
    if values.is_complex() or values.numel() < 2:
        return values
    spread = float(values.nan_to_num(0.0, 0.0, 0.0).std())
    if not 0.0 < spread < math.inf:
        return values
    step = 2.0 ** round(math.log2(spread))
    few = (values / step).round() * step
    axis = first_with_several(values)
    if axis is not None and has_both_signs(values):
        signs = few.movedim(axis, 0)[3::4]
        signs.copy_(torch.where(values.movedim(axis, 0)[3::4] < 0, -step, step))
    return few


def _round(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round each sample to a narrower dtype, chosen at random; numbers beyond its range stay as they are."""
    if values.is_complex():
        return values
    narrow = [torch.bfloat16, torch.float16] + [torch.float32] * (values.dtype is torch.float64)
    axis = first_with_several(values)
    samples = (values.reshape(1) if axis is None else values.movedim(axis, 0)).clone()
    chosen = torch.randint(len(narrow), (len(samples),), generator=generator)
    for number, dtype in enumerate(narrow):
        mine = (chosen == number).to(values.device)
        rounded = samples[mine].to(dtype).to(values.dtype)
        samples[mine] = torch.where(rounded.isinf() | (rounded == 0), samples[mine], rounded)
    return samples.reshape(values.shape) if axis is None else samples.movedim(0, axis)


def _some_flags(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Return which flags to flip; a single one for certain."""
    return torch.rand(shape, generator=generator) < (FLIPPED_SHARE if shape.numel() > 1 else 1.0)


def _reorder_or_lower(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Reorder consecutive numbers; replace equal numbers by random ones from one up to that number, or by 0 or 1."""
    if _are_consecutive(numbers):
        order = torch.randperm(numbers.shape[-1], generator=generator).to(numbers.device)
        return numbers.index_select(-1, order)
    most = int(numbers.reshape(-1)[0])
    if most < FEWEST:
        first, end = (1 - most, 2 - most) if numbers.numel() == 1 else (0, 2)  # exclude a single old value
        return _drawn_from(first, end, numbers, generator)
    if numbers.numel() == 1:
        most -= 1
    return _drawn_from(1, most + 1, numbers, generator)


def _drawn_from(low: int, high: int, numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(low, high, numbers.shape, generator=generator).to(numbers)


def _reorder_or_empty(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Reorder or lower numbers like `_reorder_or_lower`, but set one of several lengths to zero, and raise 0 and 1."""
    changed = _reorder_or_lower(numbers, generator)
    if _are_consecutive(numbers):
        return changed
    if int(numbers.reshape(-1)[0]) < FEWEST:
        return _drawn_from(FEWEST, SOME + 1, numbers, generator)
    if numbers.numel() > 1:
        changed = changed.contiguous()
        changed.view(-1)[int(torch.randint(numbers.numel(), (1,), generator=generator))] = 0
    return changed


def _are_consecutive(numbers: torch.Tensor) -> bool:
    """Return True if numbers increase by one along the last dimension, as positions do."""
    return numbers.dim() > 0 and numbers.shape[-1] > 2 and bool((numbers.diff(dim=-1) == 1).all())


_CHANGES: dict[str, _Change | None] = {
    AS_GIVEN: None,
    "x3": lambda values, _: values * 3,
    "x0.01": lambda values, _: values * 0.01,
    "one sign": lambda values, _: -values.abs() if has_both_signs(values) else -values,
    EXTREMES: _plant,
    MODERATE: functools.partial(_plant, spreads=MODERATE_SPREADS),
    "shuffled": _shuffle,
    BLANK: _blank,
    POSITIVE: _positive,
    FEW: _few,
    STRUCTURED: _structured,
    QUIETER: functools.partial(_structured, loud=1.0),
    ROUNDED: _round,
    FLAGS: lambda flags, drawn: flags ^ _some_flags(flags.shape, drawn).to(flags.device),
    WITH_EMPTY: _reorder_or_empty,
    WHOLE: _reorder_or_lower,
    OPPOSED: None,
    OPPOSED_BACK: None,
    OPPOSED_FAR: lambda values, drawn: FAR_TIMES * values,
}

DISTRIBUTIONS: tuple[str, ...] = tuple(_CHANGES)
"""Names of the distributions in the order in which they are tried. The first changes nothing."""


def draw(reference: Reference, name: str, seed: int) -> list[Any]:
    """Draw the reference's inputs for this seed under a distribution, keeping strides and shared memory."""
    inputs = reference.make_inputs(seed)
    put_under(name, inputs, seed)
    return inputs


def put_under(name: str, inputs: list[Any], seed: int) -> None:
    """Change inputs to a distribution, in place and on their device."""
    if name in OPPOSING:
        _oppose(inputs, first_sign=-1.0 if name == OPPOSED_BACK else 1.0)
    change = _CHANGES[name]
    if change is None:
        return
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        if name == FLAGS:
            for tensor in {id(tensor): tensor for tensor in tensors_in(inputs)}.values():
                if tensor.dtype is torch.bool and is_plain(tensor) and not _overlaps(tensor):
                    tensor.copy_(change(tensor, generator))
        elif name in (WITH_EMPTY, WHOLE):
            for numbers in _positions_and_lengths(inputs):
                numbers.copy_(change(numbers, generator))
        else:
            for tensor in real_valued_in(inputs):
                values = tensor.to(_COMPUTE.get(tensor.dtype, torch.float32), copy=True)
                changed = change(values, generator)
                if not changed.is_complex():  # avoid overflow, which narrow dtypes reach early
                    largest = torch.finfo(tensor.dtype).max / (OVERFLOW_MARGIN if name in (EXTREMES, MODERATE) else 1)
                    most = max(largest, float(values.abs().nan_to_num_(0.0, 0.0, 0.0).max()))
                    changed = torch.where(torch.isfinite(changed), changed.clamp(-most, most), changed)
                tensor.copy_(changed)


def _oppose(inputs: list[Any], *, first_sign: float) -> None:
    """Give all elements of the first input with both signs this sign, and all elements of the others the other one."""
    sign = first_sign
    with torch.no_grad():
        for tensor in real_valued_in(inputs):
            if has_both_signs(tensor):
                tensor.copy_(sign * tensor.abs())
                sign = -first_sign


def share_memory(inputs: list[Any]) -> bool:
    """Return True if tensors overlap or occur twice, so that copying them one by one would separate them."""
    tensors = list(tensors_in(inputs))
    plain = [tensor for tensor in tensors if is_plain(tensor)]
    return len({_memory_of(tensor) for tensor in plain}) < len(tensors) or any(map(_overlaps, plain))


def has_wide_floats(inputs: Any) -> bool:
    """Return True if an input is float32 or float64, which may be rounded to a narrower dtype."""
    return any(tensor.dtype in (torch.float32, torch.float64) and tensor.numel() for tensor in tensors_in(inputs))


def has_flags(inputs: Any) -> bool:
    return any(tensor.dtype is torch.bool and tensor.numel() for tensor in tensors_in(inputs))


def has_positions_or_lengths(inputs: Any) -> bool:
    """Return True if an integer input looks like positions (consecutive) or lengths (equal), which can be changed."""
    return any(True for _ in _positions_and_lengths(inputs))


def _positions_and_lengths(inputs: Any) -> Iterator[torch.Tensor]:
    """Yield views of the tensors that hold positions or lengths. Tensors that share storage are yielded once, and each
    element is in the view once.
    """
    by_memory: dict[object, torch.Tensor] = {}
    for tensor in tensors_in(inputs):
        if tensor.dtype in (torch.int32, torch.int64) and is_plain(tensor) and tensor.numel():
            by_memory.setdefault(_memory_of(tensor), tensor)
    for tensor in by_memory.values():
        numbers = _written_once([tensor])
        first = numbers.reshape(-1)[:1]
        are_equal = bool((numbers == first).all()) and bool((first >= 0).all())
        if are_equal or _are_consecutive(numbers):
            yield numbers


def real_valued_in(inputs: list[Any]) -> Iterator[torch.Tensor]:
    """Yield views of real and complex inputs, each storage once, so that shared memory stays shared."""
    by_memory: dict[object, list[torch.Tensor]] = {}
    for tensor in {id(tensor): tensor for tensor in tensors_in(inputs)}.values():
        if _is_real_valued(tensor) and tensor.numel():
            by_memory.setdefault(_memory_of(tensor), []).append(tensor.detach())
    yield from map(_written_once, by_memory.values())


def _is_real_valued(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _memory_of(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage().data_ptr() if is_plain(tensor) else id(tensor)


def _written_once(sharing: list[torch.Tensor]) -> torch.Tensor:
    """Return a view of the tensors' memory that contains each element once."""
    first = sharing[0]
    if not is_plain(first):
        return first.coalesce().values() if first.is_sparse else first
    single = first
    if first.dim():
        single = first[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in first.stride())]
    if len(sharing) == 1 and not _overlaps(single):
        return single
    return whole_memory(first)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Return True if two indices may address the same element; may be True even if none do."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def randomise(model: nn.Module, seed: int, kept: int | None = None) -> tuple[str, ...]:
    """Give parameters whose elements are all equal (ones, zeros, a layer scale) different values, in place.

    `kept=0` leaves the first half of the elements unchanged, `kept=1` the second half: a kernel that looks at one
    element would assume that all are equal.

    A constant c is multiplied by factors between 0.5 and 1.5, so that sign and magnitude stay in the module's domain.
    Zeros become small numbers; constants below `FAINT` become as large as these and keep their sign. Fresh running
    statistics of norms are changed too. Randomly initialised parameters keep their values. Return the names of the
    changed tensors.
    """
    generator = torch.Generator().manual_seed(seed)
    changed = []

    def change(constant: torch.Tensor, drawn: torch.Tensor) -> None:
        if kept is not None and constant.dim():
            half = constant.numel() // 2
            flat = drawn.to(constant).reshape(-1)
            flat[slice(half) if kept == 0 else slice(len(flat) - half, None)] = constant.reshape(-1)[0]
            drawn = flat.reshape(constant.shape)
        constant.copy_(drawn)

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if _is_constant(parameter):
                change(parameter, _around(parameter, generator))
                changed.append(name)
        for name, buffer in model.named_buffers():
            statistic = name.rpartition(".")[2]
            if statistic in ("running_mean", "running_var") and _is_constant(buffer):
                if statistic == "running_mean":
                    change(buffer, 0.3 * torch.randn(buffer.shape, generator=generator))
                else:
                    change(buffer, 0.5 + torch.rand(buffer.shape, generator=generator))
                changed.append(name)
    return tuple(changed)


def has_one_sign(parameter: torch.Tensor) -> bool:
    plain = parameter.is_floating_point() and parameter.numel() and 0 not in parameter.stride()
    return bool(plain) and bool((parameter > 0).all() or (parameter < 0).all())


def negate_some(model: nn.Module, names: Sequence[str]) -> None:
    """Negate every second element of the first half of each of these; a second call undoes it."""
    parameters = dict([*model.named_parameters(), *model.named_buffers()])
    for name in names:
        data = parameters[name].data
        flat = data.clone().reshape(-1)
        flat[: max(1, flat.numel() // 2) : 2].neg_()
        data.copy_(flat.reshape(data.shape))


def _is_constant(tensor: torch.Tensor) -> bool:
    usable = not is_lazy(tensor) and is_plain(tensor) and _is_real_valued(tensor) and tensor.numel() > 0
    if not usable or _overlaps(tensor):
        return False
    values = tensor.detach().to(_COMPUTE.get(tensor.dtype, torch.float32))
    first = values.reshape(-1)[0]
    return bool(torch.isfinite(first)) and bool((values == first).all())


def _around(constant: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    value = constant.detach().reshape(-1)[0].to(_COMPUTE.get(constant.dtype, torch.float32)).cpu()
    if float(value.abs()) < FAINT:
        small = (0.25 * torch.randn(constant.shape, generator=generator, dtype=torch.float32)).clamp(-0.75, 0.75)
        return small if bool(value == 0) else small.abs() * value.sgn()
    return value * (0.5 + torch.rand(constant.shape, generator=generator, dtype=torch.float32))
