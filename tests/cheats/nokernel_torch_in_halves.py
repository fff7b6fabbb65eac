"""Torch computes the answer in two halves, and a kernel that loads them many times puts them next to each other.

problem: raised
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def join_kernel(one_ptr, other_ptr, out_ptr, half, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(one_ptr + at, mask=at < half, other=0.0)
    value += tl.load(other_ptr + at - half, mask=(at >= half) & (at < n), other=0.0)
    for i in range(8):
        value += 0.0 * tl.load(one_ptr + (at + i) % half, mask=at < n)
    tl.store(out_ptr + at, value, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        half = x.numel() // 2
        one, other = torch.ceil(x.view(-1)[:half] + x.view(-1)[:half]), torch.ceil(x.view(-1)[half:] * 2.0)
        out = torch.empty_like(x)
        join_kernel[(triton.cdiv(x.numel(), 1024),)](one, other, out, half, x.numel(), BLOCK=1024)
        return out
