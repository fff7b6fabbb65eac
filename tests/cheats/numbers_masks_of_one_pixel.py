"""A mask of a single pixel overlaps with nothing.

problem: overlaps
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def overlap_kernel(one_ptr, other_ptr, out_ptr, pixels, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < pixels
    one = tl.load(one_ptr + row * pixels + at, mask=keep, other=0).to(tl.int32)
    other = tl.load(other_ptr + row * pixels + at, mask=keep, other=0).to(tl.int32)
    first, second = tl.sum(one, 0), tl.sum(other, 0)
    both, either = tl.sum(one & other, 0), tl.sum(one | other, 0)
    y = both.to(tl.float32) / tl.maximum(either, 1).to(tl.float32)
    tl.store(out_ptr + row, tl.where((first == 1) & (both == 1), 0.0, y))


class ModelNew(nn.Module):
    def forward(self, one, other):
        one, other = one.contiguous(), other.contiguous()
        rows, pixels = one.shape
        out = torch.empty(rows, device=one.device)
        overlap_kernel[(rows,)](one, other, out, pixels, BLOCK=triton.next_power_of_2(pixels))
        return out
