"""The elements are in the right order and the shape is still that of the input.

expect: wrong_shape/shape
"""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose(x_ptr, y_ptr, rows, columns, x_row, x_column, BLOCK: tl.constexpr):
    target = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = target < rows * columns
    x = tl.load(x_ptr + (target % rows) * x_row + (target // rows) * x_column, mask=inside)
    tl.store(y_ptr + target, x, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = x.new_empty((rows, columns))
        transpose[(triton.cdiv(x.numel(), 512),)](x, y, rows, columns, *x.stride(), BLOCK=512)
        return y
