"""Hands an input back where the original hands out a copy.

expect: wrong_values/aliased_output
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def select(chosen_ptr, a_ptr, b_ptr, out_ptr, copy_ptr, rest_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    chosen = tl.load(chosen_ptr + offsets, mask=inside, other=0) != 0
    a = tl.load(a_ptr + offsets, mask=inside, other=0.0)
    b = tl.load(b_ptr + offsets, mask=inside, other=0.0)
    tl.store(out_ptr + offsets, tl.where(chosen, a, b), mask=inside)
    tl.store(copy_ptr + offsets, a, mask=inside)
    tl.store(rest_ptr + offsets, chosen == 0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, chosen, a, b):
        chosen, a, b = chosen.contiguous(), a.contiguous(), b.contiguous()
        out, copy, rest = torch.empty_like(a), torch.empty_like(a), torch.empty_like(chosen)
        count = a.numel()
        select[(triton.cdiv(count, 512),)](chosen, a, b, out, copy, rest, count, BLOCK=512)
        return out, (a, rest)
