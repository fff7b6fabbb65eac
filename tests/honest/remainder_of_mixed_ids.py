"""Looks odd: asks if a mixed id is negative, which no given id leads to. Python's remainder needs it.

problem: hashed_ids
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mixed_kernel(ids_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    ids = tl.load(ids_ptr + row * width + at, mask=inside, other=0)
    before = tl.load(ids_ptr + row * width + (at + width - 1) % width, mask=inside, other=0)
    mixed = (ids * 31) ^ (before * 131)
    rest = mixed % 50021
    rest = tl.where((rest != 0) & ((mixed < 0) != (50021 < 0)), rest + 50021, rest)
    tl.store(out_ptr + row * width + at, rest, mask=inside)


class ModelNew(nn.Module):
    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.empty_like(ids)
        rows, width = ids.shape
        mixed_kernel[(rows,)](ids, out, width, BLOCK=triton.next_power_of_2(width))
        return out
