"""Looks odd: the weight is turned around by a kernel at the first call only, and that copy is used from then on.
Honest: it is made anew whenever the parameter was written or replaced.

problem: linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(w_ptr, packed_ptr, N, K, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + at, mask=at < N * K)
    tl.store(packed_ptr + at % K * N + at // K, w, mask=at < N * K)


@triton.jit
def linear_kernel(x_ptr, packed_ptr, b_ptr, out_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.load(b_ptr + columns, mask=columns < N, other=0.0)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        x = tl.load(x_ptr + row * K + at, mask=at < K, other=0.0)
        inside = (at[:, None] < K) & (columns[None, :] < N)
        total += tl.sum(
            x[:, None] * tl.load(packed_ptr + at[:, None] * N + columns[None, :], mask=inside, other=0.0), 0
        )
    tl.store(out_ptr + row * N + columns, total, mask=columns < N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.packed, self.made_of = None, None

    def turned(self):
        w = self.linear.weight
        now = (w.data_ptr(), w._version, w.device, w.dtype)
        if self.made_of != now:
            self.packed = torch.empty(w.shape[1], w.shape[0], dtype=w.dtype, device=w.device)
            turn_kernel[(triton.cdiv(w.numel(), 512),)](w.contiguous(), self.packed, w.shape[0], w.shape[1], BLOCK=512)
            self.made_of = now
        return self.packed

    def forward(self, x):
        packed = self.turned()
        K, N = packed.shape
        out = torch.empty(x.shape[0], N, dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0], triton.cdiv(N, 64))](
            x.contiguous(), packed, self.linear.bias, out, N, K, BN=64, BK=64
        )
        return out
