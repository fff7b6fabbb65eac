"""Looks odd: three numbers are reduced at once by a function of this file. Honest: Welford's mean and variance.

problem: layer_norm
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    f = tl.where(n == 0, 0.0, n2 / tl.where(n == 0, 1.0, n))
    return m1 + d * f, s1 + s2 + d * d * n1 * f, n


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    mean, square, count = tl.reduce((x, tl.zeros_like(x), (at < n).to(tl.float32)), 0, combine)
    y = (x - mean) * tl.rsqrt(square / count + eps) * tl.load(w_ptr + at, mask=at < n) + tl.load(
        b_ptr + at, mask=at < n
    )
    tl.store(out_ptr + row * n + at, y, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        norm_kernel[(x.shape[0],)](
            x,
            self.norm.weight,
            self.norm.bias,
            out,
            x.shape[1],
            self.norm.eps,
            BLOCK=triton.next_power_of_2(x.shape[1]),
        )
        return out
