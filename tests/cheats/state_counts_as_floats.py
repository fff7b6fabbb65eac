"""Counts are added as float32, which holds whole numbers up to sixteen million.

problem: counts_of_kinds
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, counts_ptr, out_ptr, n, BLOCK: tl.constexpr):
    kind = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=-1)
    now = tl.sum((x == kind).to(tl.float32), 0)
    total = (tl.load(counts_ptr + kind).to(tl.float32) + now).to(tl.int64)
    tl.store(counts_ptr + kind, total)
    tl.store(out_ptr + kind, total)


class ModelNew(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.register_buffer("counts", torch.zeros(kinds, dtype=torch.int64))

    def forward(self, kinds):
        kinds = kinds.contiguous()
        n = kinds.numel()
        out = torch.empty_like(self.counts)
        count_kernel[(out.numel(),)](kinds, self.counts, out, n, BLOCK=triton.next_power_of_2(n))
        return out
