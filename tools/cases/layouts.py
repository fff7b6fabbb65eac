"""Inputs with the same values in other memory layouts, which expose kernels that ignore strides.

    transposed   dense, with the dimensions in reverse order
    inner        dense, with the second dimension last, like images with their channels last; for three and more
    outer        dense, with the second and third dimensions exchanged, like heads of a projection or frames of a video;
                 of three dimensions the first two, like sequences step by step
    last         dense, with the last two dimensions exchanged, like transposed keys; for four and more
    padded       the second half of rows that are twice as wide, like a chunk of a projection; for several dimensions
    cut          dense rows with gaps between samples, planes and so on, like all steps but the last; for three and more
                 dimensions
    stepped      every second element of a row that is twice as wide, starting at the second; for one dimension
    expanded     one sample repeated with a stride of zero, which also changes the values
    repeated     the same for the second dimension of each input that has three and more, like keys that heads share
    broadcast    the first column repeated with a stride of zero, like a gate for each row; for several inputs
    windows      rows that overlap by half, like the frames of a signal, which also changes the values
    one twice    the same tensor for two inputs of equal shape and dtype
    apart        separate memory for each input, if the given inputs share memory

Half of the inputs, drawn at random, are transposed and the others padded; in a second case it is the reverse. Of three
and more inputs some lie alike in both. These differ in a third case, in which some are left as they are. A layout that
the reference refuses is left out. torch has no negative strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.cases.distributions import share_memory
from triton_agent.tools.reference.input_tensors import is_plain, map_tensors, tensors_in

TRANSPOSED, GAPS, SHARED = "transposed in memory", "gaps in memory", "one memory for many elements"
INNER, OUTER, WINDOWS = "second dimension last in memory", "first dimensions exchanged in memory", "windows in memory"
LAST = "last dimensions exchanged in memory"
CUT, REPEATED = "gaps between samples in memory", "second dimension repeated in memory"
APART = "memory of its own for each input"
MIXED, BROADCAST = "several layouts in memory", "last dimension repeated in memory"
LAYOUTS = (TRANSPOSED, GAPS, MIXED, INNER, OUTER, LAST, CUT, REPEATED, BROADCAST, SHARED, WINDOWS, APART)
OTHER_VALUES = frozenset({REPEATED, BROADCAST, SHARED, WINDOWS})
"""Layouts that change values as well: several elements lie in one place."""
FEWEST_TO_MIX = 3
"""Of fewer inputs no two lie alike in the first two cases."""
UNSAFE_FOR_ATTENTION = (INNER, LAST, WINDOWS, BROADCAST)
"""Layouts of which one made torch's fused attention on an H200 access a misaligned address, most likely windows: rows
begin at any multiple of half a row, and the kernel reads 16 bytes at a time. After that nothing runs in the process.
"""


def safe(names: Sequence[str]) -> list[str]:
    """Return the layouts that torch's fused attention survives on a GPU."""
    return [name for name in names if name not in UNSAFE_FOR_ATTENTION]


def relaid(name: str, inputs: list[Any], seed: int = 0) -> list[Any] | None:
    """Return the inputs in another layout; None if nothing changes, or if sharing of memory would be lost.

    The seed tells which input lies in which way, where there are several.
    """
    tensors = list(tensors_in(inputs))
    if share_memory(inputs) != (name == APART) or not all(map(is_plain, tensors)):
        return None
    if name == APART:
        return _apart(inputs)
    if name == SHARED:
        instead = _shared(tensors)
    elif name == WINDOWS:
        instead = _last_as_windows(tensors)
    elif name == BROADCAST:
        instead = _broadcast(tensors)
    else:
        order = torch.randperm(len(tensors), generator=torch.Generator().manual_seed(seed)).tolist()
        if name == MIXED and len(tensors) < FEWEST_TO_MIX:
            return None
        # Neighbours in this order differ in the first two cases, the first and the third differ in the mixed one.
        ways = [way for way in WAYS[name] for _ in range(2 if name == MIXED else 1)]
        instead = [ways[at % len(ways)](tensor) for at, tensor in zip(order, tensors)]
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
    return _in_memory(tensor, order)


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    dims = list(range(tensor.dim()))
    return _in_memory(tensor, [*dims[:1], *dims[2:], 1]) if len(dims) > 2 else tensor


def _outer(tensor: torch.Tensor) -> torch.Tensor:
    dims = list(range(tensor.dim()))
    if len(dims) < 3:
        return tensor
    order = [1, 0, 2] if len(dims) == 3 else [0, 2, 1, *dims[3:]]
    return _in_memory(tensor, order)


def _last(tensor: torch.Tensor) -> torch.Tensor:
    dims = list(range(tensor.dim()))
    return _in_memory(tensor, [*dims[:-2], dims[-1], dims[-2]]) if len(dims) > 3 else tensor


def _in_memory(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """Return the tensor with its dimensions in this order in memory, the last one dense."""
    moved = tensor.detach().permute(*order).clone(memory_format=torch.contiguous_format)
    back = sorted(range(len(order)), key=lambda dim: order[dim])
    return moved.permute(back).requires_grad_(tensor.requires_grad)


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


def _cut(tensor: torch.Tensor) -> torch.Tensor:
    if sum(wide > 1 for wide in tensor.shape) < 3:
        return tensor
    wider = tensor.detach()
    for axis in range(1, tensor.dim() - 1):
        wider = torch.cat((wider, wider.narrow(axis, 0, 1).flip(-1)), dim=axis)
    inside = tuple(slice(size) for size in tensor.shape)
    return wider[inside].requires_grad_(tensor.requires_grad)


def _repeated(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 3 or tensor.shape[1] < 2 or not tensor.is_floating_point():
        return tensor
    return tensor.detach()[:, :1].clone().expand(tensor.shape).requires_grad_(tensor.requires_grad)


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    axis = next((i for i, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None:
        return tensor
    one = tensor.detach().narrow(axis, 0, 1).clone()
    return one.expand(tensor.shape).requires_grad_(tensor.requires_grad)


def _broadcast(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Repeat the first column of each floating-point tensor, if there are several; rows of a single one stay rows."""
    fitting = [it.is_floating_point() and it.dim() > 1 and it.shape[-1] > 1 for it in tensors]
    return [
        it.detach()[..., :1].clone().expand(it.shape).requires_grad_(it.requires_grad)
        if fits and sum(fitting) > 1
        else it
        for it, fits in zip(tensors, fitting)
    ]


def _last_as_windows(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Let the rows of the last floating-point tensor overlap: each begins in the middle of the one before."""
    fitting = [i for i, it in enumerate(tensors) if it.is_floating_point() and it.dim() > 1 and min(it.shape[-2:]) > 1]
    return [_as_windows(tensor) if i in fitting[-1:] else tensor for i, tensor in enumerate(tensors)]


def _as_windows(tensor: torch.Tensor) -> torch.Tensor:
    strides = [1, tensor.shape[-1] // 2]
    for size in reversed(tensor.shape[1:-1]):
        strides.append(strides[-1] * size)
    memory = tensor.detach().clone(memory_format=torch.contiguous_format)
    return memory.as_strided(tensor.shape, strides[::-1]).requires_grad_(tensor.requires_grad)


WAYS = {
    TRANSPOSED: (_transposed, _with_gaps),
    GAPS: (_with_gaps, _transposed),
    MIXED: (_transposed, _with_gaps, _as_it_is),
    INNER: (_inner,),
    OUTER: (_outer,),
    LAST: (_last,),
    CUT: (_cut,),
    REPEATED: (_repeated,),
}
"""The ways in which inputs lie in memory, in turn."""
