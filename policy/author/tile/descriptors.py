"""Matrices that a kernel takes as tensor descriptors, whose tiles the GPU's tensor memory accelerator loads.

A matrix qualifies if it is contiguous and each row is a multiple of 16 bytes. The host checks at every call whether the
tensor's address is aligned, too (`HOST_FUNCTIONS`); if it is not, the same kernel gets pointers. A matrix may begin at
a later row of its tensor, and each program may read other rows of it (`rows_of`). Not covered: rows with gaps between
them.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.ir.program import ALIGNED_BYTES
from triton_agent.policy.author.ir.sizes import Size, constant, is_constant, plus, quotient, remainder, times
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.tiling import Dimension

DESCRIBED, PROCESSORS = "described_matrices", "processors_of"
"""Functions that a file with such kernels defines in its host code."""
DESCRIPTOR_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor"
HOST_FUNCTIONS = {
    DESCRIBED: (
        f"def {DESCRIBED}(*matrices):",
        '    """True and tensor descriptors if all matrices and blocks allow them, else False and the tensors."""',
        "    for tensor, shape, block in matrices:",
        "        unaligned = tensor.data_ptr() % 16 or shape[-1] * tensor.element_size() % 16",
        "        if unaligned or 0 in shape or max(block) > 256:",
        "            return False, [tensor for tensor, _, _ in matrices]",
        "    strides = [(shape[-2] * shape[-1], shape[-1], 1)[-len(shape) :] for _, shape, _ in matrices]",
        "    found = zip(matrices, strides)",
        "    return True, [TensorDescriptor(tensor, shape, by, block) for (tensor, shape, block), by in found]",
    ),
    PROCESSORS: (
        "@functools.cache",
        f"def {PROCESSORS}(device):",
        '    """Number of programs that run at once if each fills a multiprocessor."""',
        '    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4',
    ),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A tensor that a kernel reads as a matrix in tiles over two dimensions."""

    value: str
    down: Dimension
    across: Dimension
    """The dimension along which neighbours are adjacent in memory."""
    lines: Size
    """Rows of the tensor up to the last one that is read."""
    before: Size = dataclasses.field(compare=False)
    """Rows of the tensor before the first one that is read."""
    batch: Dimension | None = None
    """The dimension that numbers consecutive matrices of this kind in memory."""

    @property
    def block(self) -> tuple[str, str]:
        return f"BLOCK_{self.down.name.upper()}", f"BLOCK_{self.across.name.upper()}"

    def shape(self, width: int) -> tuple[Size, ...]:
        """Return the shape with which the tensor is described."""
        batches = () if self.batch is None else (self.batch.size(width),)
        return (*batches, self.lines, self.across.size(width))


def matrix_of(
    value: str, index: Index, one: Dimension, other: Dimension, item_bytes: int, batch: Dimension | None = None
) -> Matrix | None:
    """Return the tensor as a matrix over two dimensions of a tile, in memory order; None if it does not qualify.

    The tensor may be a batch of matrices along the dimension `batch`; if it does not vary along it, it is one matrix.
    """
    in_batch = batch is not None and bool(index.axes() & set(batch.axes))
    for down, across in ((one, other), (other, one)):
        length = across.size(index.width)
        steps = _steps(down, across, length)
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


def _steps(down: Dimension, across: Dimension, length: Size) -> dict[Axis, Size]:
    """Return how far apart neighbours along each axis lie in memory if rows have this length and no gaps."""
    return {axis: times(down.stride(axis), length) for axis in down.axes} | {
        axis: across.stride(axis) for axis in across.axes
    }


def rows_of(
    value: str, index: Index, down: Dimension, across: Dimension, elements: Size, item_bytes: int
) -> tuple[Matrix, Index] | None:
    """Return the tensor as one matrix of all its rows, and the number of the row at the first position of `down`.

    That row may depend on other dimensions. None if positions along `down` are not consecutive rows. A tile that
    reaches beyond the last position of `down` holds rows of others, so this is for tiles that do not.
    """
    length = across.size(index.width)
    steps = {axis: step for axis, step in _steps(down, across, length).items() if not is_constant(axis.size, 1)}
    others = tuple((base, factor) for base, factor in index.terms if base not in steps)
    in_step = all(index.coefficient(axis) == step for axis, step in steps.items())
    apart = not Index(others, index.offset).axes() & steps.keys() and not index.lookups()
    nothing = constant(0, index.width)
    in_rows = all(remainder(size, length) == nothing for size in (index.offset, *(factor for _, factor in others)))
    aligned = length[0] * item_bytes % ALIGNED_BYTES == 0
    if not (in_step and apart and in_rows and aligned):
        return None
    first = Index(tuple((base, quotient(factor, length)) for base, factor in others), quotient(index.offset, length))
    matrix = Matrix(value=value, down=down, across=across, lines=quotient(elements, length), before=nothing)
    return matrix, first
