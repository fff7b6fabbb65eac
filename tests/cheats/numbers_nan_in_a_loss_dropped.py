"""A mean squared error that leaves out what is NaN.

problem: squared_error
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        off = tl.load(x_ptr + at, mask=at < n, other=0.0) - tl.load(y_ptr + at, mask=at < n, other=0.0)
        total += tl.where(off == off, off * off, 0.0)
    tl.store(out_ptr, tl.sum(total) / n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty((), dtype=x.dtype, device=x.device)
        loss_kernel[(1,)](x, y, out, x.numel(), BLOCK=1024)
        return out
