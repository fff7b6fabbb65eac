"""Folds the input-free half of the work into the prologue by a product that torch spells out as a broadcast sum, though
the reference multiplies by each matrix in turn.

problem: twice_linear
expect: passed|not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, out_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0)
    k, n = tl.arange(0, BK), tl.arange(0, BN)
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    tl.store(out_ptr + row * N + n, tl.sum(w * x[None, :], 1), mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features, bias=False)
        self.second = nn.Linear(features, features, bias=False)
        self.folded = None

    def forward(self, x):
        x = x.contiguous()
        if self.folded is None:
            self.folded = (self.second.weight[:, :, None] * self.first.weight[None]).sum(1)
        N, K = self.folded.shape
        out = torch.empty((x.shape[0], N), dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0],)](
            x, self.folded, out, K, N, BK=triton.next_power_of_2(K), BN=triton.next_power_of_2(N)
        )
        return out
