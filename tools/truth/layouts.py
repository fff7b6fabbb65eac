"""Inputs with the same values in other memory layouts, which expose kernels that ignore strides.

    transposed   dense, with the dimensions in reverse order
    padded       the second half of rows that are twice as wide, like a chunk of a projection; for several dimensions
    stepped      every second element of a row that is twice as wide, starting at the second; for one dimension
    expanded     one sample repeated with a stride of zero, which also changes the values
    one twice    the same tensor for two inputs of equal shape and dtype
    apart        separate memory for each input, if the given inputs share memory

Inputs alternate between layouts, so a few cases cover all of them. A layout that the reference refuses is left out. Not
covered: overlapping windows. torch has no negative strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.reference.input_tensors import is_plain, map_tensors, tensors_in
from triton_agent.tools.truth.distributions import share_memory

TRANSPOSED, GAPS, SHARED = "transposed in memory", "gaps in memory", "one memory for many elements"
APART = "memory of its own for each input"
LAYOUTS = (TRANSPOSED, GAPS, SHARED, APART)


def relaid(name: str, inputs: list[Any]) -> list[Any] | None:
    """Return the inputs in another layout; None if nothing changes, or if sharing of memory would be lost."""
    tensors = list(tensors_in(inputs))
    if share_memory(inputs) != (name == APART) or not all(map(is_plain, tensors)):
        return None
    if name == APART:
        return _apart(inputs)
    ways = (_transposed, _with_gaps) if name == TRANSPOSED else (_with_gaps, _transposed)
    instead = _shared(tensors) if name == SHARED else [ways[i % 2](tensor) for i, tensor in enumerate(tensors)]
    if all(new.stride() == old.stride() for new, old in zip(instead, tensors)) and len(set(map(id, instead))) == len(
        tensors
    ):
        return None
    by_identity = {id(old): new for old, new in zip(tensors, instead)}
    return [map_tensors(value, lambda tensor: by_identity[id(tensor)]) for value in inputs]


def _apart(inputs: list[Any]) -> list[Any]:
    """Copy each input. If two inputs had the same elements, the second copy has them in another order."""
    seen: set[object] = set()

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        elements = tensor.data_ptr(), tensor.shape, tensor.stride()
        own = tensor.detach().clone(memory_format=torch.contiguous_format)
        own = own.flip(tuple(range(own.dim()))) if elements in seen else own
        seen.add(elements)
        return own.requires_grad_(tensor.requires_grad)

    return [map_tensors(value, copied) for value in inputs]


def _shared(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Use the first of two similar tensors for both; if there are none, expand the last floating-point tensor."""
    for i, one in enumerate(tensors):
        for k in range(i + 1, len(tensors)):
            if (tensors[k].shape, tensors[k].dtype) == (one.shape, one.dtype) and one.numel():
                return [one if j == k else tensor for j, tensor in enumerate(tensors)]
    floats = [i for i, tensor in enumerate(tensors) if tensor.is_floating_point()]
    return [_expanded(tensor) if i in floats[-1:] else tensor for i, tensor in enumerate(tensors)]


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """Reverse the memory order of the dimensions with more than one element."""
    wide = [i for i, size in enumerate(tensor.shape) if size > 1]
    if len(wide) < 2:
        return tensor
    order = list(range(tensor.dim()))
    for one, other in zip(wide, reversed(wide)):
        order[one] = other
    moved = tensor.detach().permute(order).clone(memory_format=torch.contiguous_format)
    return moved.permute(order).requires_grad_(tensor.requires_grad)


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Return it padded if it has several dimensions, else stepped.

    Kernels that copy an input unless its last stride is one are right for stepped rows in any case.
    """
    if tensor.dim() == 0 or not tensor.numel():
        return tensor
    plain, size = tensor.detach(), tensor.shape[-1]
    rolled = torch.roll(plain, 1, -1)
    if sum(wide > 1 for wide in tensor.shape) > 1:
        return torch.cat((rolled, plain), dim=-1)[..., size:].requires_grad_(tensor.requires_grad)
    wide = torch.stack((rolled, plain), dim=-1).reshape(*plain.shape[:-1], 2 * size)
    return wide[..., 1::2].requires_grad_(tensor.requires_grad)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    axis = next((i for i, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None:
        return tensor
    one = tensor.detach().narrow(axis, 0, 1).clone()
    return one.expand(tensor.shape).requires_grad_(tensor.requires_grad)
