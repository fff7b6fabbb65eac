"""Strides of every tensor go into the kernel, so nothing is made contiguous; both outputs are allocated as one tensor.

problem: residual_rms_normed
expect: passed
where: both
"""

from typing import Tuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_norm_kernel(
    x_ptr,
    stride_xm,
    stride_xn,
    r_ptr,
    stride_rm,
    stride_rn,
    w_ptr,
    o_ptr,
    stride_om,
    stride_on,
    s_ptr,
    N,
    EPS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    inside = n < N
    total = tl.load(x_ptr + m * stride_xm + n * stride_xn, mask=inside, other=0.0)
    total = total + tl.load(r_ptr + m * stride_rm + n * stride_rn, mask=inside, other=0.0)
    inverse = tl.rsqrt(tl.sum(total * total) / N + EPS)
    w = tl.load(w_ptr + n, mask=inside)
    tl.store(s_ptr + m * stride_om + n * stride_on, total, mask=inside)
    tl.store(o_ptr + m * stride_om + n * stride_on, total * inverse * w, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        M, N = x.shape
        both = torch.empty((2, M, N), dtype=x.dtype, device=x.device)
        normed, total = both.unbind(0)
        add_norm_kernel[(M,)](
            x,
            *x.stride(),
            residual,
            *residual.stride(),
            self.weight,
            normed,
            *normed.stride(),
            total,
            N,
            EPS=1e-6,
            BLOCK_N=triton.next_power_of_2(N),
        )
        return normed, total
