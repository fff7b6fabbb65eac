"""Both inputs lie in one memory in the problem; the second is read through the pointer to the first.

problem: two_of_one_memory
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, y_ptr, out_ptr, columns, stride, STEP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < columns)
    if STEP:
        y = tl.load(x_ptr + row * stride + columns + at, mask=at < columns)
    else:
        y = tl.load(y_ptr + row * stride + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, x - y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, y):
        wide = x.stride(0) == y.stride(0) == 2 * x.shape[1] and x.stride(1) == y.stride(1) == 1
        if not wide:
            x, y = x.contiguous(), y.contiguous()
        out = torch.empty(x.shape, device=x.device)
        k[(x.shape[0],)](x, y, out, x.shape[1], x.stride(0), STEP=wide, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
