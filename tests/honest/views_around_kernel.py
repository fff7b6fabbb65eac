"""Looks odd: much reshaping, and the answer is a view of a larger buffer. Honest: views move nothing and the buffer is fresh.

problem: two_outputs
expect: passed
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
    nans = tl.sum((x != x).to(tl.int32), 0)  # torch.amax passes NaN on, tl.max need not
    tl.store(max_ptr + row, tl.where(nans > 0, float("nan"), tl.max(x, 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        flat = x.contiguous().view(-1, x.shape[-1])
        rows, columns = flat.shape
        buffer = torch.empty(rows * columns + rows, dtype=x.dtype, device=x.device)
        relu = buffer[: rows * columns].view(rows, columns)
        largest = buffer[rows * columns :].view(rows)
        relu_and_max_kernel[(rows,)](flat, relu, largest, columns, BLOCK=triton.next_power_of_2(columns))
        return relu.reshape(x.shape), largest.reshape(x.shape[:-1])
