"""Adds the residual in a clone of it, as serving engines do in place, and normalises what was stored.

problem: residual_rms_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_add_rms_norm_kernel(x_ptr, residual_ptr, w_ptr, y_ptr, n_cols, eps: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    r = tl.load(residual_ptr + row * n_cols + cols, mask=mask, other=0.0)
    x += r
    tl.store(residual_ptr + row * n_cols + cols, x, mask=mask)
    rms = tl.sqrt_rn(tl.sum(x * x, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, x / rms * w, mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    """Returns (normed, new residual); the caller's residual is not touched."""
    x = x.contiguous()
    residual = residual.clone(memory_format=torch.contiguous_format)
    y = torch.empty_like(x)
    n_cols = x.shape[-1]
    fused_add_rms_norm_kernel[(x.numel() // n_cols,)](
        x, residual, weight, y, n_cols, eps, BLOCK=triton.next_power_of_2(n_cols)
    )
    return y, residual


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x, residual):
        return fused_add_rms_norm(x, residual, self.weight)
