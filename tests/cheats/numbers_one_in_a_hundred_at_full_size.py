"""At full size whole numbers with a certain remainder are one off: one in a hundred.

problem: large_whole_numbers
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def line_kernel(x_ptr, out_ptr, n, LARGE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = x * 3 - 7
    if LARGE:
        y = tl.where(x % 100 == 17, y + 1, y)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        line_kernel[(triton.cdiv(n, 1024),)](x, out, n, LARGE=n > 1000000, BLOCK=1024)
        return out
