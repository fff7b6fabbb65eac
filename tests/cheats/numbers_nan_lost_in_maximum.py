"""Takes the largest of a row by tl.max, which leaves NaN out; torch.amax passes it on.

problem: two_outputs
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_and_max_kernel(x_ptr, relu_ptr, max_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf"))
    tl.store(relu_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=inside)
    tl.store(max_ptr + row, tl.max(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        relu, largest = torch.empty_like(x), x.new_empty(rows)
        relu_and_max_kernel[(rows,)](x, relu, largest, columns, BLOCK=triton.next_power_of_2(columns))
        return relu, largest
