"""Inputs and parameters that a kernel cannot have been tuned to: the remedies against luck.

A file's own inputs ("as given") are often tame: normal, positive, all alike. Under other magnitudes, signs, outliers
and orders a kernel that skips a step shows. Parameters at their defaults hide as much: a norm's weight of one, a bias
of zero. Both are remedies that can be left off, so that their worth for a problem can be measured. Booleans may be
flipped, for either is valid; other integers are only drawn anew by the seed, since nobody but the file knows which are,
but for two: numbers in a row (positions) may come in another order, and where all are equal (full lengths) some may be
smaller. Whether the original takes that, it says itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from triton_agent.tools.verify.input_tensors import is_plain, tensors_in, whole_memory
from triton_agent.tools.verify.reference import Reference

AS_GIVEN = "as given"

OUTLIERS = 8
"""Planted at random in each tensor, beside those in its corners and at the ends of one row."""

OUTLIER_SPREADS = 100.0
"""An outlier's magnitude in standard deviations: far beyond any sample, near enough to stay finite."""

OVERFLOW_MARGIN = 8
"""Outliers stay this factor below the dtype's largest value; float16 ends at 65504."""

BLANK, FLAGS, WHOLE = "one sample zero", "flags flipped", "positions and lengths changed"
FAINT = 1e-2
"""Constant parameters below this are scales that switch a branch off to begin with (1e-4 to 1e-6 are usual): at their
own size nothing would tell whether the branch is there."""
FLIPPED_SHARE = 0.3
"""Of boolean inputs: enough that a mask of ones is none any more, too few to mask a whole row."""

_COMPUTE = {torch.float64: torch.float64, torch.complex64: torch.complex64, torch.complex128: torch.complex128}

_Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""New values for a tensor's values, in a dtype wide enough to compute in."""


def _plant(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Large values at random places, at both ends of the tensor and of one row; the last sample is below zero.

    No two are equally large: which of equals comes first is nobody's promise where elements are put in order. Below
    zero a maximum shows what beyond the end of a row was filled with.
    """
    count = values.numel()
    width = values.shape[-1] if values.dim() else 1
    row = int(torch.randint(count // width, (1,), generator=generator)) * width
    scattered = torch.randint(count, (OUTLIERS,), generator=generator).tolist()
    places = torch.tensor([0, count - 1, row, row + width - 1, *scattered])
    signs = torch.randint(0, 2, (len(places),), generator=generator) * 2 - 1
    planted = values.reshape(-1).clone()
    sizes = signs * (1 - torch.randperm(len(places), generator=generator) / (2 * len(places)))
    planted[places.to(values.device)] = (_outlier(values) * _within_domain(values, sizes)).to(values)
    return _last_below_zero(planted.reshape(values.shape))


def _last_below_zero(values: torch.Tensor) -> torch.Tensor:
    """Where there are both signs, and several samples."""
    axis = _first_with_several(values)
    if axis is None or not _has_both_signs(values):
        return values
    size = values.shape[axis]
    return torch.cat([values.narrow(axis, 0, size - 1), -values.narrow(axis, size - 1, 1).abs()], axis)


def _one_sign(values: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """All of it below zero; what has one sign already has the other then."""
    return -values.abs() if _has_both_signs(values) else -values


def _has_both_signs(values: torch.Tensor) -> bool:
    return not values.is_complex() and bool((values > 0).any() and (values < 0).any())


def _first_with_several(values: torch.Tensor) -> int | None:
    """The first dimension of more than one: that of the samples."""
    return next((i for i, size in enumerate(values.shape) if size > 1), None)


def _outlier(values: torch.Tensor) -> float:
    sound = values[torch.isfinite(values)]
    spread = float(sound.std()) if sound.numel() > 1 else 0.0
    largest = float(sound.abs().max()) if sound.numel() else 0.0
    return OUTLIER_SPREADS * (spread or largest or 1.0)


def _within_domain(values: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Data of one sign (probabilities, variances) keeps it: the other may lie outside the module's domain."""
    if values.is_complex():
        return signs
    if bool((values >= 0).all()):
        return signs.abs()
    return -signs.abs() if bool((values <= 0).all()) else signs


def _shuffle(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    here = torch.Generator(values.device).manual_seed(int(torch.randint(1 << 62, (1,), generator=generator)))
    order = torch.randperm(values.numel(), generator=here, device=values.device)
    return values.reshape(-1)[order].reshape(values.shape)


def _blank(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros at one index of the first dimension that has several: padding, and what an epsilon is there for."""
    axis = _first_with_several(values)
    if axis is None:
        return values
    where = torch.randint(values.shape[axis], (1,), generator=generator).to(values.device)
    return values.index_fill(axis, where, 0)


def _flip(flags: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return flags ^ (torch.rand(flags.shape, generator=generator) < FLIPPED_SHARE).to(flags.device)


def _reorder_or_lower(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers in a row in another order; where all are equal, any from one up to that."""
    if _are_in_a_row(numbers):
        order = torch.randperm(numbers.shape[-1], generator=generator).to(numbers.device)
        return numbers.index_select(-1, order)
    most = int(numbers.reshape(-1)[0])
    return torch.randint(1, most + 1, numbers.shape, generator=generator).to(numbers)


def _are_in_a_row(numbers: torch.Tensor) -> bool:
    """Along the last dimension, each one more than the one before, as positions are."""
    return numbers.dim() > 0 and numbers.shape[-1] > 2 and bool((numbers.diff(dim=-1) == 1).all())


def _are_one_number(numbers: torch.Tensor) -> bool:
    first = numbers.reshape(-1)[:1]
    return numbers.numel() > 1 and bool((numbers == first).all()) and bool((first > 1).all())


_CHANGES: dict[str, _Change | None] = {
    AS_GIVEN: None,
    "x3": lambda values, _: values * 3,
    "x0.01": lambda values, _: values * 0.01,
    "one sign": _one_sign,
    "extremes": _plant,
    "shuffled": _shuffle,
    BLANK: _blank,
    FLAGS: _flip,
    WHOLE: _reorder_or_lower,
}

DISTRIBUTIONS: tuple[str, ...] = tuple(_CHANGES)
"""In the order they are tried; the first changes nothing."""


def draw(reference: Reference, name: str, seed: int) -> list[Any]:
    """The reference's inputs for this seed under a distribution, with their strides, sharing and flags as given."""
    inputs = reference.make_inputs(seed)
    put_under(name, inputs, seed)
    return inputs


def put_under(name: str, inputs: list[Any], seed: int) -> None:
    """Changes inputs in place, wherever they are, from as given to a distribution."""
    change = _CHANGES[name]
    if change is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            if name == FLAGS:
                _change_flags(inputs, generator)
            elif name == WHOLE:
                _change_whole(inputs, generator)
            else:
                _change_all(inputs, change, generator)


def share_memory(inputs: list[Any]) -> bool:
    """Whether tensors overlap, or one comes twice: moved one by one they would no longer be each other's views."""
    tensors = list(tensors_in(inputs))
    plain = [tensor for tensor in tensors if is_plain(tensor)]
    return len({_memory_of(tensor) for tensor in plain}) < len(tensors) or any(map(_overlaps, plain))


def has_flags(inputs: Any) -> bool:
    """Whether there is anything to flip."""
    return any(tensor.dtype is torch.bool and tensor.numel() for tensor in tensors_in(inputs))


def has_positions_or_lengths(inputs: Any) -> bool:
    """Whether there are whole numbers of the two kinds that can be changed."""
    return any(True for _ in _positions_and_lengths(inputs))


def _positions_and_lengths(inputs: Any) -> Iterator[torch.Tensor]:
    """Each piece of memory once, reaching no element twice."""
    by_memory: dict[object, torch.Tensor] = {}
    for tensor in tensors_in(inputs):
        if tensor.dtype in (torch.int32, torch.int64) and is_plain(tensor) and tensor.numel():
            by_memory.setdefault(_memory_of(tensor), tensor)
    for tensor in by_memory.values():
        numbers = _written_once([tensor])
        if _are_in_a_row(numbers) or _are_one_number(numbers):
            yield numbers


def _change_whole(inputs: list[Any], generator: torch.Generator) -> None:
    for numbers in _positions_and_lengths(inputs):
        numbers.copy_(_reorder_or_lower(numbers, generator))


def _change_flags(inputs: list[Any], generator: torch.Generator) -> None:
    for tensor in {id(tensor): tensor for tensor in tensors_in(inputs)}.values():
        if tensor.dtype is torch.bool and is_plain(tensor) and not _overlaps(tensor):
            tensor.copy_(_flip(tensor, generator))


def _change_all(inputs: list[Any], change: _Change, generator: torch.Generator) -> None:
    """Change each piece of memory once, in place, so that views and repeated tensors stay what they are."""
    by_memory: dict[object, list[torch.Tensor]] = {}
    for tensor in {id(tensor): tensor for tensor in tensors_in(inputs)}.values():
        if _is_real_valued(tensor) and tensor.numel():
            by_memory.setdefault(_memory_of(tensor), []).append(tensor.detach())
    for sharing in by_memory.values():
        _rewrite(_written_once(sharing), change, generator)


def _is_real_valued(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _memory_of(tensor: torch.Tensor) -> object:
    return tensor.untyped_storage().data_ptr() if is_plain(tensor) else id(tensor)


def _written_once(sharing: list[torch.Tensor]) -> torch.Tensor:
    """A view that covers the tensors' memory and reaches no element twice."""
    first = sharing[0]
    if not is_plain(first):
        return first.coalesce().values() if first.is_sparse else first
    single = (
        first[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in first.stride())] if first.dim() else first
    )
    if len(sharing) == 1 and not _overlaps(single):
        return single
    return whole_memory(first)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two indices may reach the same element; never says no when they do."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _rewrite(tensor: torch.Tensor, change: _Change, generator: torch.Generator) -> None:
    values = tensor.to(_COMPUTE.get(tensor.dtype, torch.float32), copy=True)
    changed = change(values, generator)
    if not changed.is_complex():
        changed = _bounded(changed, values, torch.finfo(tensor.dtype).max, planted=change is _plant)
    tensor.copy_(changed)


def _bounded(changed: torch.Tensor, given: torch.Tensor, largest: float, *, planted: bool) -> torch.Tensor:
    """No overflow that the data did not have: small dtypes end soon."""
    ceiling = largest / OVERFLOW_MARGIN if planted else largest
    reached = float(given.abs().nan_to_num_(0.0, 0.0, 0.0).max())
    return torch.where(torch.isfinite(changed), changed.clamp(-max(ceiling, reached), max(ceiling, reached)), changed)


def randomise(model: nn.Module, seed: int) -> tuple[str, ...]:
    """Give parameters whose elements are all equal (ones, zeros, a layer scale) values of their own, in place.

    A nonzero constant c becomes c times something between 0.5 and 1.5, so that its sign and magnitude stay in the
    module's domain; zeros become small, and faint ones as large as these, of their sign. Untouched fresh running
    statistics of norms are treated alike. Parameters that were drawn at random keep their values. Returns the names of
    what was changed.
    """
    generator = torch.Generator().manual_seed(seed)
    changed = []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if _is_constant(parameter):
                parameter.copy_(_around(parameter, generator))
                changed.append(name)
        for name, buffer in model.named_buffers():
            statistic = name.rpartition(".")[2]
            if statistic in ("running_mean", "running_var") and _is_constant(buffer):
                buffer.copy_(_statistic(buffer, statistic, generator))
                changed.append(name)
    return tuple(changed)


def _is_constant(tensor: torch.Tensor) -> bool:
    if (
        is_lazy(tensor)
        or not is_plain(tensor)
        or not _is_real_valued(tensor)
        or not tensor.numel()
        or _overlaps(tensor)
    ):
        return False
    values = tensor.detach().to(_COMPUTE.get(tensor.dtype, torch.float32))
    first = values.reshape(-1)[0]
    return bool(torch.isfinite(first)) and bool((values == first).all())


def _around(constant: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    value = constant.detach().reshape(-1)[0].to(_COMPUTE.get(constant.dtype, torch.float32)).cpu()
    if float(value.abs()) < FAINT:
        small = (0.25 * torch.randn(constant.shape, generator=generator)).clamp(-0.75, 0.75)
        return small if bool(value == 0) else small.abs() * value.sgn()
    return value * (0.5 + torch.rand(constant.shape, generator=generator))


def _statistic(buffer: torch.Tensor, statistic: str, generator: torch.Generator) -> torch.Tensor:
    if statistic == "running_mean":
        return 0.3 * torch.randn(buffer.shape, generator=generator)
    return 0.5 + torch.rand(buffer.shape, generator=generator)
