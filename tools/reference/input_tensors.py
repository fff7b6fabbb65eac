"""Input tensors: drawn from a description, copied, cut or extended along a dimension.

The functions take lists of values; values that are not tensors pass through unchanged.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor

from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.problem.input_spec import DTYPES, InputSpec

DEFAULT_BELOW = 10
"""Integers are drawn below this bound unless one is given: small enough to index most tables."""

_SEED_STEP = 1_000_003
"""Step between the seeds of additional draws, so that they differ from the inputs of neighbouring seeds."""
DRAWS_AT_MOST = 32
"""Most draws that `with_leading` makes. A draw runs the user's code, and a size that reaches a named position may need
thousands; a row that is read in place of another then differs from it in 31 of 32 cases."""


def drawn(leaf: Any) -> Any:
    """Return a tensor drawn from an `InputSpec`; return any other value as it is."""
    return draw(leaf) if isinstance(leaf, InputSpec) else leaf


def draw(spec: InputSpec) -> torch.Tensor:
    """Draw a tensor from the global generator: normal floats, small integers, random booleans."""
    dtype = getattr(torch, DTYPES[spec.dtype], None)
    if dtype is None:
        raise UsageError(f"this torch has no {spec.dtype}", where="--input", remedy="use another dtype")
    if dtype is torch.bool:
        return torch.randint(0, 2, spec.shape).bool()
    if dtype.is_complex:
        return torch.randn(spec.shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(spec.shape, dtype=torch.float64 if dtype is torch.float64 else torch.float32).to(dtype)
    return torch.randint(0, spec.below or DEFAULT_BELOW, spec.shape).to(dtype)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Apply `change` to every tensor in a nested value."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def own_copy(values: list[Any]) -> list[Any]:
    """Copy the tensors, keeping strides and memory shared among them.

    A file may return the same tensor from every call, and the caller must be free to write into its inputs.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    copies: dict[int, torch.Tensor] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = _copy(tensor, storages)
        return copies[id(tensor)]

    return [map_tensors(value, copied) for value in values]


def apart(values: list[Any]) -> list[Any]:
    """Copy tensors that share memory, each into memory of its own, keeping strides; if none do, return the values."""
    plain = [tensor for tensor in tensors_in(values) if is_plain(tensor) and not isinstance(tensor, FakeTensor)]
    addresses = [tensor.untyped_storage().data_ptr() for tensor in plain if tensor.numel()]
    if len(set(addresses)) == len(addresses):
        return values
    return [map_tensors(value, lambda tensor: own_copy([tensor])[0]) for value in values]


def _copy(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    plain = tensor.detach()
    if isinstance(plain, FakeTensor):  # holds no data, so nothing can be written into it
        return tensor
    if not is_plain(plain):
        return plain.clone().requires_grad_(tensor.requires_grad)
    address = plain.untyped_storage().data_ptr()
    if address == 0 or address not in storages:  # empty storages all lie at 0 and share nothing
        storages[address] = whole_memory(plain).clone().untyped_storage()
    copy = torch.empty(0, dtype=plain.dtype, device=plain.device)
    with torch.no_grad():
        copy.set_(storages[address], plain.storage_offset(), plain.size(), plain.stride())
    return copy.requires_grad_(tensor.requires_grad)


def is_sorted(tensor: torch.Tensor) -> bool:
    """Return True if no element is smaller than the one before, as in offsets, positions, and bounds of a search."""
    flat = tensor.reshape(-1)
    return not bool((flat[1:] < flat[:-1]).any())


def whole_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole storage of the tensor as one row."""
    storage = tensor.untyped_storage()
    row = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    row.set_(storage, 0, (storage.nbytes() // tensor.element_size(),), (1,))
    return row


def is_plain(tensor: torch.Tensor) -> bool:
    """Return True for ordinary strided memory: not sparse, not nested, no lazy conjugate or negative."""
    return tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_conj() or tensor.is_neg())


def leading_size(values: list[Any]) -> int | None:
    """Return the leading size that most input tensors share, or None if no tensor has a dimension."""
    sizes = collections.Counter(tensor.shape[0] for tensor in tensors_in(values) if tensor.dim() > 0)
    return sizes.most_common(1)[0][0] if sizes else None


def with_leading(make: Callable[[int], list[Any]], seed: int, *, batch: int) -> list[Any]:
    """Make inputs whose common leading size is `batch`: cut them, or append the rows of further draws.

    They lie in memory as the inputs given do, with gaps and repeated elements. Beyond `DRAWS_AT_MOST` draws their rows
    are repeated, draws in random order. Offsets that divide the rows into segments divide the new ones.
    """
    given = make(seed)
    common = leading_size(given)
    if not common:
        raise ProblemError("the inputs have no common leading dimension to change")
    needed = math.ceil(batch / common)
    more = [make(seed + _SEED_STEP * i) for i in range(1, min(needed, DRAWS_AT_MOST))]
    repeats = numpy.random.default_rng(seed).integers(DRAWS_AT_MOST, size=max(0, needed - DRAWS_AT_MOST))
    changed: dict[int, torch.Tensor] = {}
    rows = zip(tensors_in(given), *(tensors_in(draw) for draw in more))
    for tensor, *others in rows:
        if tensor.dim() > 0 and tensor.shape[0] == common and id(tensor) not in changed:
            parts = [part.detach() for part in (tensor, *others)]
            whole = torch.cat([*parts, *_repeated(parts, repeats)]) if others else parts[0]
            changed[id(tensor)] = _laid_out_as(tensor, whole[:batch]).requires_grad_(tensor.requires_grad)
    for tensor in tensors_in(given):
        if id(tensor) not in changed and _divides(tensor, common):
            changed[id(tensor)] = torch.cat((tensor[:-1].clamp(max=batch), torch.full_like(tensor[-1:], batch)))
    return [map_tensors(value, lambda tensor: changed.get(id(tensor), tensor)) for value in given]


def _divides(offsets: torch.Tensor, rows: int) -> bool:
    """Return True for whole numbers in order from zero to the number of rows."""
    if offsets.dim() != 1 or len(offsets) < 2 or offsets.dtype not in (torch.int32, torch.int64):
        return False
    if isinstance(offsets, FakeTensor):  # has no values
        return False
    return int(offsets[0]) == 0 and int(offsets[-1]) == rows and is_sorted(offsets)


def lies_in_order(tensor: torch.Tensor) -> bool:
    """Return True if the step from row to row is the size of a row, so that a further row would follow the last one."""
    return tensor.dim() == 0 or tensor.stride(0) == math.prod(tensor.shape[1:])


def _laid_out_as(given: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return a copy of the values whose strides are those of the tensor given, which has another leading size."""
    if given.layout is not torch.strided or values.numel() == 0:
        return values.clone()
    size, count, first = given.shape[0], values.shape[0], given.stride(0)
    steps = [step // size * count if step > first else step for step in given.stride()]
    held = [size if step else 1 for size, step in zip(values.shape, steps)]
    if any(step > first and step % size for step in given.stride()) or _overlap(held, steps):
        return values.clone()
    span = 1 + sum((size - 1) * step for size, step in zip(held, steps))
    copy = torch.zeros(span, dtype=values.dtype, device=values.device).as_strided(held, steps)
    copy.copy_(values[tuple(slice(size) for size in held)])
    return copy.expand(values.shape)


def _overlap(sizes: Sequence[int], steps: Sequence[int]) -> bool:
    """Return True unless each dimension steps over all those with smaller strides."""
    reach = 0
    for step, size in sorted(zip(steps, sizes)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


def _repeated(parts: Sequence[torch.Tensor], order: Any) -> list[torch.Tensor]:
    """Return parts again in this order: one by one, or joined if they are alike, since there may be millions."""
    if len(order) and len({part.shape for part in parts}) == 1 and all(map(is_plain, parts)):
        return [torch.stack(list(parts))[torch.from_numpy(order)].flatten(0, 1)]
    return [parts[at] for at in order]


def with_length(
    make: Callable[[int], list[Any]], seed: int, given: list[Any], places: Sequence[tuple[int, int]], length: int
) -> list[Any]:
    """Cut the `given` inputs to a length, or append further draws; `places` are pairs of argument and dimension."""
    changed = list(given)
    draws: dict[int, list[Any]] = {}
    for at, dimension in places:
        parts, missing = [given[at]], length - given[at].shape[dimension]
        while missing > 0 and given[at].shape[dimension]:
            number = len(parts)
            if number not in draws:
                draws[number] = make(seed + _SEED_STEP * number)
            parts.append(draws[number][at])
            missing -= parts[-1].shape[dimension]
        whole = torch.cat([part.detach() for part in parts], dimension) if len(parts) > 1 else parts[0].detach()
        if whole.shape[dimension] < length:
            raise ProblemError(f"an input without elements cannot have the length {length}")
        cut = whole.narrow(dimension, 0, length)
        changed[at] = cut.clone().requires_grad_(given[at].requires_grad)
    return changed
