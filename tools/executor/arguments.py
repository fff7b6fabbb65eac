"""Arguments of a launch as Triton takes them, from what stands on a tape."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_agent.tools.executor.kernels import Kernels
from triton_agent.tools.tape.tape import Constexpr, Descriptor


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A tensor that a kernel gets as a descriptor."""

    tensor: torch.Tensor
    descriptor: Descriptor


def as_passed(value: Any, kernels: Kernels) -> Any:
    """The value that a launch is given."""
    if isinstance(value, Constexpr):
        return kernels.argument(value.value)
    if isinstance(value, Described):
        return descriptor_over(value.tensor, value.descriptor)
    if isinstance(value, list | tuple):
        return tuple(as_passed(item, kernels) for item in value)
    return value


def descriptor_over(base: Any, descriptor: Descriptor) -> TensorDescriptor:
    """Triton's own descriptor, over a tensor or what stands in for one."""
    more = {"round_f32_to_tf32": True} if descriptor.round_f32_to_tf32 else {}  # not in Triton 3.6
    view = descriptor.view
    shape, strides, block = list(view.shape), list(view.strides), list(descriptor.block_shape)
    return TensorDescriptor(base, shape, strides, block, padding=descriptor.padding, **more)
