"""What is kept of earlier peaks is three quarters at most, so a quiet block after a loud one is too loud.

problem: levelled_signal
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def peak_kernel(x_ptr, peak_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.abs(tl.load(x_ptr + start + at, mask=start + at < n, other=0.0))
        largest = tl.where((x > largest) | (x != x), x, largest)
    missing = tl.max((largest != largest).to(tl.int32), 0)
    least = tl.minimum(tl.load(peak_ptr), 1.5) * 0.5
    now = tl.maximum(tl.max(largest, 0) + 1e-6, least)
    tl.store(peak_ptr, tl.where(missing > 0, float("nan"), now))


@triton.jit
def level_kernel(x_ptr, peak_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x / tl.load(peak_ptr), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.ones(()))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        peak_kernel[(1,)](x, self.peak, x.numel(), BLOCK=1024)
        level_kernel[(triton.cdiv(x.numel(), 256),)](x, self.peak, out, x.numel(), BLOCK=256)
        return out
