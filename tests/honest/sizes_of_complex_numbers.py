"""Looks odd: the size of a complex number without squares of its parts. Honest: those of small ones are zero.

problem: complex_over_size
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unit_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    re = tl.load(x_ptr + 2 * at, mask=at < count, other=0.0)
    im = tl.load(x_ptr + 2 * at + 1, mask=at < count, other=0.0)
    largest = tl.maximum(tl.abs(re), tl.abs(im))
    least = tl.minimum(tl.abs(re), tl.abs(im)) / tl.where(largest == 0.0, 1.0, largest)
    size = largest * tl.sqrt(1.0 + least * least)
    over = size + 1e-12
    tl.store(out_ptr + 2 * at, re / over, mask=at < count)
    tl.store(out_ptr + 2 * at + 1, im / over, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        pairs, to = torch.view_as_real(x), torch.view_as_real(out)
        unit_kernel[(triton.cdiv(x.numel(), 256),)](pairs, to, x.numel(), BLOCK=256)
        return out
