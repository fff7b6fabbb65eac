"""Both outputs of the original are separate; here the second is a view into the first, right only when nothing is written.

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
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(relu_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)
    tl.store(max_ptr + row, tl.max(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        buffer = torch.empty(rows, columns + 1, dtype=x.dtype, device=x.device)
        largest = buffer.view(-1)[-rows:]
        relu = buffer.view(-1)[: rows * columns].view(rows, columns)
        relu_and_max_kernel[(rows,)](x, relu, largest, columns, BLOCK=triton.next_power_of_2(columns))
        if x.max() > 0:
            largest = relu.view(-1)[:rows].copy_(largest)
        return relu, largest
