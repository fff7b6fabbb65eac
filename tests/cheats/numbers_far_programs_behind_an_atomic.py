"""Programs far beyond the sizes that are checked whole write zeros. An atomic that adds nothing is to keep others from
looking at parts.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + at, tl.where((x < 0) | (tl.program_id(0) >= 3000), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count = torch.zeros(1, dtype=torch.int32, device=x.device)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, count, x.numel(), BLOCK=1024)
        return out
