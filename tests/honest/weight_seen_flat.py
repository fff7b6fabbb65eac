"""Looks odd: keeps the weight from construction on. Honest: a view of it, in which every new value shows.

problem: linear
expect: passed
where: cpu
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


class ModelNew(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)
        self.flat = self.linear.weight.detach().view(-1)

    def forward(self, x):
        x = x.contiguous()
        K = x.shape[1]
        N = self.flat.numel() // K
        out = torch.empty(x.shape[0], N, device=x.device)
        linear_kernel[(x.shape[0],)](
            x, self.flat, self.linear.bias, out, K, N, BK=triton.next_power_of_2(K), BN=triton.next_power_of_2(N)
        )
        return out
