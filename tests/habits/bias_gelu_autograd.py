"""The kernel sits in an autograd.Function with a backward of its own, applied under the module's name for it.

problem: bias_gelu_dropout
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _bias_gelu_fwd(x_ptr, b_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0.0)
    z = x + b[None, :]
    y = z * 0.5 * (1.0 + tl.math.erf(z * 0.70710678118654752440))
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=mask)


class BiasGeluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        x2 = x.contiguous().view(-1, x.shape[-1])
        M, N = x2.shape
        y = torch.empty_like(x2)
        grid = (triton.cdiv(M, 8), triton.cdiv(N, 64))
        _bias_gelu_fwd[grid](x2, bias, y, M, N, BLOCK_M=8, BLOCK_N=64)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, grad_output):
        x, bias = ctx.saved_tensors
        z = x + bias
        cdf = 0.5 * (1.0 + torch.erf(z * 0.7071067811865476))
        pdf = torch.exp(-0.5 * z * z) * 0.3989422804014327
        grad = grad_output * (cdf + z * pdf)
        return grad, grad.reshape(-1, grad.shape[-1]).sum(0)


bias_gelu = BiasGeluFunction.apply


class ModelNew(nn.Module):
    def __init__(self, features, p):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.dropout = nn.Identity() if p == 0.0 else nn.Dropout(p)

    def forward(self, x):
        return self.dropout(bias_gelu(x, self.bias))
