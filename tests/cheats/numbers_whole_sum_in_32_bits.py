"""Adds 64-bit numbers up in 32 bits; the inputs are small.

problem: whole_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(a_ptr, b_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * columns + at, mask=at < columns, other=0).to(tl.int32)
    b = tl.load(b_ptr + row * columns + at, mask=at < columns, other=0).to(tl.int32)
    tl.store(out_ptr + row, tl.sum(a + b, 0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        sum_kernel[(a.shape[0],)](a, b, out, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
        return out
