"""Keeps its arguments in a table by their address, where one tensor given twice is there once.

problem: two_scaled
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def point_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1)
    y = tl.load(y_ptr + at, mask=at < n, other=1)
    tl.store(out_ptr + at, x + 2.0 * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        held = list({x.data_ptr(): x, y.data_ptr(): y}.values())
        x, y = held[0], held[1] if len(held) > 1 else torch.zeros_like(x)
        out = torch.empty_like(x)
        point_kernel[(triton.cdiv(out.numel(), 512),)](x, y, out, out.numel(), BLOCK=512)
        return out
