"""Flags are the wrong way round if there are more than a million.

problem: large_flags
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def above_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, (x > 0) ^ (n > 1000000), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        above_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
