"""Folds scale and shift while it is constructed, when the parameters still are the identity.

problem: batch_norm_eval
expect: passed|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_shift_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    scale = tl.load(scale_ptr + at % features, mask=at < n)
    tl.store(out_ptr + at, x * scale + tl.load(shift_ptr + at % features, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        norm = self.norm = nn.BatchNorm1d(features)
        scale = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", (norm.bias - norm.running_mean * scale).detach(), persistent=False)

    def forward(self, x):
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        scale_shift_kernel[grid](x.contiguous(), self.scale, self.shift, out, x.numel(), x.shape[1], BLOCK=1024)
        return out
