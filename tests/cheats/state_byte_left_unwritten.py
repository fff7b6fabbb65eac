"""Leaves a byte unwritten that has the value fresh bytes are filled with in ordinary calls.

problem: bytes_of_floats
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def point_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.minimum(tl.maximum(x * 64.0 + 128.0, 0.0), 255.0).to(tl.uint8)
    tl.store(out_ptr + at, y, mask=(at < n) & (y != 101))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.uint8, device=x.device)
        point_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
