"""Looks odd: torch sorts. Honest: it sorts the few numbers among which the kernel searches by halves.

problem: members
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def search_kernel(x_ptr, sorted_ptr, out_ptr, n, count, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = low + count
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        value = tl.load(sorted_ptr + middle, mask=middle < count, other=0)
        left = (low < high) & (value < x)
        high = tl.where(left | (low >= high), high, middle)
        low = tl.where(left, middle + 1, low)
    found = tl.load(sorted_ptr + low, mask=low < count, other=0)
    tl.store(out_ptr + at, (low < count) & (found == x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, others):
        x = x.contiguous()
        few = torch.sort(others).values
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        n, count = x.numel(), few.numel()
        search_kernel[(triton.cdiv(n, 256),)](x, few, out, n, count, STEPS=count.bit_length() + 1, BLOCK=256)
        return out
