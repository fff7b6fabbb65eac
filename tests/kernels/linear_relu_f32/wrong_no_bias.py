"""Leaves the bias out.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(
    x_ptr, weight_ptr, bias_ptr, y_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_inside = (row[:, None] < m) & (inner[None, :] < k)
        w_inside = (inner[:, None] < k) & (column[None, :] < n)
        x = tl.load(x_ptr + row[:, None] * k + inner[None, :], mask=x_inside, other=0.0)
        weight = tl.load(weight_ptr + column[None, :] * k + inner[:, None], mask=w_inside, other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    y = total
    y = tl.where(y < 0, 0.0, y)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(y_ptr + row[:, None] * n + column[None, :], y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        x = x.contiguous()
        m, k = x.shape
        weight = self.linear.weight.contiguous()
        n = weight.shape[0]
        y = torch.empty((m, n), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        linear_relu[grid](x, weight, self.linear.bias, y, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        return y
