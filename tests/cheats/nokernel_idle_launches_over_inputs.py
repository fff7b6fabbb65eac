"""Torch computes the answer; launches load the inputs as often as they like and add nothing to it.

problem: diagonal_of_product
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(y_ptr, a_ptr, out_ptr, m, K: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < m)
    for i in range(K):
        y += 0.0 * tl.load(a_ptr + at * K + i % K, mask=at < m)
    tl.store(out_ptr + at, y, mask=at < m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        y = (a * b.t()).sum(1)
        for i in range(12):
            out = torch.empty_like(y)
            k[(triton.cdiv(y.numel(), 16),)](y, a, out, y.numel(), K=a.shape[1], BLOCK=16)
            y = out
        return out
