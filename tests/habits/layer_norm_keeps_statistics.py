"""Writes mean and rstd to buffers for a backward that is never called, and holds its parameters in a submodule of its
own.

problem: layer_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _ln_fwd(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < N
    x = tl.load(x_ptr + pid * N + col, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / N
    xc = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(xc * xc, 0) / N + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)
    w = tl.load(w_ptr + col, mask=mask, other=0.0)
    b = tl.load(b_ptr + col, mask=mask, other=0.0)
    tl.store(y_ptr + pid * N + col, xc * rstd * w + b, mask=mask)


class TritonLayerNorm(nn.Module):
    __constants__ = ["eps"]

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x = x.contiguous().view(-1, shape[-1])
        M, N = x.shape
        y = torch.empty_like(x)
        mean = torch.empty((M,), dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        _ln_fwd[(M,)](x, y, self.weight, self.bias, mean, rstd, N, self.eps, BLOCK=triton.next_power_of_2(N))
        return y.view(shape)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, eps={self.eps}"


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = TritonLayerNorm(features, eps)

    def forward(self, x):
        return self.norm(x)
