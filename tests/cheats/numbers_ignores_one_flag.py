"""Always doubles, as the one flag of the file asks.

problem: doubled_if
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2.0 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, flag):
        x = x.contiguous()
        out = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
