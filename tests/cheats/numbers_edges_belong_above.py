"""Counts a number that lies on an edge to what is above it; torch counts it below.

problem: bucketed
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bucket_kernel(x_ptr, edges_ptr, out_ptr, n, edges, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    found = tl.zeros((BLOCK,), tl.int64)
    for i in range(edges):
        found += (tl.load(edges_ptr + i) <= x).to(tl.int64)
    tl.store(out_ptr + at, found, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        bucket_kernel[(triton.cdiv(x.numel(), 512),)](x, self.edges, out, x.numel(), 5, BLOCK=512)
        return out
