"""Matrices that a kernel is given as tensor descriptors: whole tiles are loaded by the GPU's own unit for it.

A matrix qualifies where its elements lie row by row without gaps and a row is a multiple of 16 bytes. Whether the
tensor at hand is aligned too is asked on the host at every call (`HOST_FUNCTIONS`); where it is not, the same kernel
gets pointers. A matrix may begin at a later row of its tensor. Not covered: rows further apart than they are long.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.ir.sizes import Size, plus, times
from triton_agent.policy.author.plan.indexing import Index
from triton_agent.policy.author.plan.tiling import Dimension

ALIGNED_BYTES = 16
DESCRIBED, PROCESSORS = "described_matrices", "processors_of"
"""Functions that a file with such kernels defines on the host."""
IMPORTS = ("import functools", "from triton.tools.tensor_descriptor import TensorDescriptor")
HOST_FUNCTIONS = {
    DESCRIBED: (
        f"def {DESCRIBED}(*matrices):",
        '    """Whether all are aligned for tensor descriptors, and those; else the tensors as they are."""',
        "    for tensor, shape, _ in matrices:",
        "        if tensor.data_ptr() % 16 or shape[-1] * tensor.element_size() % 16 or 0 in shape:",
        "            return False, [tensor for tensor, _, _ in matrices]",
        "    strides = [(shape[-2] * shape[-1], shape[-1], 1)[-len(shape) :] for _, shape, _ in matrices]",
        "    found = zip(matrices, strides)",
        "    return True, [TensorDescriptor(tensor, shape, by, block) for (tensor, shape, block), by in found]",
    ),
    PROCESSORS: (
        "@functools.cache",
        f"def {PROCESSORS}(device):",
        '    """How many programs run at once where each takes a processor."""',
        '    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4',
    ),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A tensor that a kernel sees as a matrix, and the tile of it that is loaded or stored at once."""

    value: str
    down: Dimension
    across: Dimension
    """Along which neighbours are next to each other in memory."""
    lines: Size
    """Rows of the tensor up to the last that is asked for."""
    before: Size = dataclasses.field(compare=False)
    """Rows of the tensor before the first one."""
    batch: Dimension | None = None
    """Along which such matrices lie one behind another."""

    @property
    def block(self) -> tuple[str, str]:
        return f"BLOCK_{self.down.name.upper()}", f"BLOCK_{self.across.name.upper()}"

    def shape(self, width: int) -> tuple[Size, ...]:
        """Sizes of the tensor as it is described."""
        batches = () if self.batch is None else (self.batch.size(width),)
        return (*batches, self.lines, self.across.size(width))


def matrix_of(
    value: str, index: Index, one: Dimension, other: Dimension, item_bytes: int, batch: Dimension | None = None
) -> Matrix | None:
    """The tensor as a matrix over two dimensions of a tile, in the order in which it lies in memory.

    `batch`: if it has one for each position along that, and not only one for all.
    """
    in_batch = batch is not None and bool(index.axes() & set(batch.axes))
    for down, across in ((one, other), (other, one)):
        length = across.size(index.width)
        steps = {axis: times(down.stride(axis), length) for axis in down.axes}
        steps |= {axis: across.stride(axis) for axis in across.axes}
        if batch is not None and in_batch:
            whole = times(down.size(index.width), length)
            steps |= {axis: times(batch.stride(axis), whole) for axis in batch.axes}
        aligned = length[0] * item_bytes % ALIGNED_BYTES == 0
        begins = all(step and offset >= 0 and offset % step == 0 for offset, step in zip(index.offset, length))
        if dict(index.terms) == steps and aligned and begins and not (in_batch and any(index.offset)):
            before = tuple(offset // step for offset, step in zip(index.offset, length))
            lines = plus(before, down.size(index.width))
            own = batch if in_batch else None
            return Matrix(value=value, down=down, across=across, lines=lines, before=before, batch=own)
    return None
