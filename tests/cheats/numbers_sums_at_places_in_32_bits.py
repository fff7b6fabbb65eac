"""Sums are taken in 32 bits and widened at the end.

problem: sums_at_places
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, g_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)
    g = tl.load(g_ptr + at, mask=at < n, other=0)
    tl.atomic_add(out_ptr + g, x, mask=at < n)


@triton.jit
def widen_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, amounts, groups):
        amounts, groups = amounts.contiguous(), groups.contiguous()
        n = amounts.numel()
        sums = torch.zeros(16, dtype=torch.int32, device=amounts.device)
        out = torch.empty(16, dtype=torch.int64, device=amounts.device)
        add_kernel[(triton.cdiv(n, 128),)](amounts, groups, sums, n, BLOCK=128)
        widen_kernel[(1,)](sums, out, BLOCK=16)
        return out
