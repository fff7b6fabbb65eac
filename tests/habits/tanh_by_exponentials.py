"""Tanh by exponentials, from the absolute value, with the sign put back.

problem: tanh_alone
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    tl.store(out_ptr + offsets, tl.where(x >= 0, t, -t), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        output = torch.empty_like(x)
        n_elements = output.numel()
        tanh_kernel[(triton.cdiv(n_elements, 1024),)](x, output, n_elements, BLOCK_SIZE=1024)
        return output
