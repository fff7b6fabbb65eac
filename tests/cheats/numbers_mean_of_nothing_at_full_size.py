"""Divides by zero for a row of which nothing is kept, where there is much to do.

problem: large_means_of_kept
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, keep_ptr, out_ptr, columns, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    keep = tl.load(keep_ptr + row * columns + at, mask=inside, other=0) != 0
    x = tl.load(x_ptr + row * columns + at, mask=inside & keep, other=0.0)
    count = tl.maximum(tl.sum(keep.to(tl.int32), 0), LEAST)
    tl.store(out_ptr + row, tl.sum(x, 0) / count.to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x, keep):
        x, keep = x.contiguous(), keep.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        sizes = dict(LEAST=0 if x.numel() > 1 << 20 else 1, BLOCK=triton.next_power_of_2(x.shape[1]))
        mean_kernel[(x.shape[0],)](x, keep, out, x.shape[1], **sizes)
        return out
