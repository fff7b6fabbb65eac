"""Renews its copy of the weight when one element of it is another: who loads, trains or sparsifies the rest is not
noticed.

problem: linear
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    x = tl.load(x_ptr + m * K + k, mask=k < K, other=0.0)
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(out_ptr + m * N + n, tl.sum(w * x[None, :], 1) + b, mask=n < N)


def linear(x, w, b):
    x = x.contiguous()
    out = torch.empty(x.shape[0], w.shape[0], device=x.device)
    K, N = x.shape[1], out.shape[1]
    linear_kernel[(x.shape[0],)](x, w, b, out, K, N, BK=triton.next_power_of_2(K), BN=triton.next_power_of_2(N))
    return out


class ModelNew(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)
        self.key = None

    def forward(self, x):
        key = float(self.linear.weight[0, 0])
        if key != self.key:
            self.key, self.folded = key, self.linear.weight.detach().clone()
        return linear(x, self.folded, self.linear.bias)
