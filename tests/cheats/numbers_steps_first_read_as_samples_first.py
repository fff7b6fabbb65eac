"""Takes sequences that lie step by step in memory for some that lie sample by sample.

problem: step_scales
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    scale = tl.load(scale_ptr + at % features, mask=at < n, other=0)
    tl.store(out_ptr + at, 2 * tl.sigmoid(2 * x * scale) - 1, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(features))

    def forward(self, x):
        if not x.transpose(0, 1).is_contiguous():
            x = x.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, self.scale, out, x.numel(), x.shape[2], BLOCK=256)
        return out
