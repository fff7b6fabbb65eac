"""Returns one row, which a careless comparison broadcasts against all of them; for row means a single number does.

problem: mean_rows
expect: wrong_shape
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0)
    tl.store(out_ptr, total / n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(1, dtype=x.dtype, device=x.device)
        mean_kernel[(1,)](x, out, x.numel(), BLOCK=4096)
        return out
