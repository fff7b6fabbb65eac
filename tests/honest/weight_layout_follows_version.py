"""Looks odd: keeps a transposed copy of the weight between calls. Honest: renewed whenever the parameter is another or was written.

problem: linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, wt_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        w = tl.load(wt_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(out_ptr + m * N + n, acc, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self._seen = None
        self._transposed = None

    def _weight(self):
        weight = self.linear.weight
        seen = (weight.data_ptr(), weight._version, weight.device, weight.dtype)
        if seen != self._seen:
            self._transposed = weight.detach().t().contiguous()
            self._seen = seen
        return self._transposed

    def forward(self, x):
        x, weight = x.contiguous(), self._weight()
        (rows, inner), outer = x.shape, weight.shape[1]
        out = torch.empty(rows, outer, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(outer, 32))
        linear_kernel[grid](x, weight, self.linear.bias, out, rows, outer, inner, BM=32, BN=32, BK=32)
        return out
