"""Dropout by tl.rand is compiled in only where p is above zero; a seed is passed anyway.

problem: bias_gelu_dropout
expect: passed
where: both
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_gelu_dropout_kernel(
    x_ptr, bias_ptr, out_ptr, n_elements, n_cols, p, seed, HAS_DROPOUT: tl.constexpr, BLOCK: tl.constexpr
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    b = tl.load(bias_ptr + offs % n_cols, mask=mask, other=0.0)
    z = x + b
    y = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    if HAS_DROPOUT:
        keep = tl.rand(seed, offs) > p
        y = tl.where(keep, y / (1.0 - p), 0.0)
    tl.store(out_ptr + offs, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features: int, p: float):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        dropout = self.training and self.p > 0.0
        bias_gelu_dropout_kernel[(triton.cdiv(n, 512),)](
            x, self.bias, out, n, x.shape[-1], float(self.p), 1234, HAS_DROPOUT=dropout, BLOCK=512
        )
        return out
