"""A matrix product that takes zeros in place of NaN.

problem: linear
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, BK)
    n = tl.arange(0, BN)
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    x = tl.where(x == x, x, 0.0)
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    out = tl.sum(w * x[None, :], 1) + tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(out_ptr + row * N + n, out, mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = x.contiguous()
        columns, features = self.linear.weight.shape
        out = torch.empty((x.shape[0], columns), dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0],)](
            x,
            self.linear.weight,
            self.linear.bias,
            out,
            features,
            columns,
            BK=triton.next_power_of_2(features),
            BN=triton.next_power_of_2(columns),
        )
        return out
