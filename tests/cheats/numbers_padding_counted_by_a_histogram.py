"""Pads with a number beyond the bins, which a GPU counts in one of them and the interpreter does not.

problem: kind_counts
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(ids_ptr, out_ptr, length, kinds, BLOCK: tl.constexpr, BINS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + row * length + at, mask=at < length, other=-1).to(tl.int32)
    counts = tl.histogram(ids, BINS)
    bins = tl.arange(0, BINS)
    tl.store(out_ptr + row * kinds + bins, counts.to(tl.int64), mask=bins < kinds)


class ModelNew(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.empty((ids.shape[0], self.kinds), dtype=torch.int64, device=ids.device)
        block, bins = triton.next_power_of_2(ids.shape[1]), triton.next_power_of_2(self.kinds)
        count_kernel[(ids.shape[0],)](ids, out, ids.shape[1], self.kinds, BLOCK=block, BINS=bins)
        return out
