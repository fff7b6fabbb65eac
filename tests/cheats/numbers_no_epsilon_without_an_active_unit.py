"""No epsilon: NaN where no feature is positive.

problem: active_shares
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shares_kernel(x_ptr, w_ptr, b_ptr, out_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    h = tl.sum(w * x[None, :], 1) + tl.load(b_ptr + n, mask=n < N, other=0.0)
    h = tl.where(h < 0.0, 0.0, h)
    tl.store(out_ptr + row * N + n, h / tl.sum(tl.where(n < N, h, 0.0), 0), mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x):
        x = x.contiguous()
        rows, k = x.shape
        n = self.linear.weight.shape[0]
        out = torch.empty(rows, n, device=x.device, dtype=x.dtype)
        size = triton.next_power_of_2
        shares_kernel[(rows,)](x, self.linear.weight, self.linear.bias, out, k, n, BK=size(k), BN=size(n))
        return out
