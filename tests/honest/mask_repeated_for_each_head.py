"""Softmax in one pass over blocks, the first of which a mask may hide: the mask is repeated in memory for each head.

problem: masked_shares
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shares_kernel(x_ptr, mask_ptr, out_ptr, rows, columns, per_head, per_row, BLOCK: tl.constexpr):
    head, row = tl.program_id(0), tl.program_id(1)
    x_ptr += (head * rows + row) * columns
    out_ptr += (head * rows + row) * columns
    mask_ptr += head * per_head + row * per_row
    at = tl.arange(0, BLOCK)
    peak = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        x = tl.load(x_ptr + start + at, mask=inside, other=float("-inf"))
        x += tl.load(mask_ptr + start + at, mask=inside, other=0.0)
        new = tl.maximum(peak, tl.max(x, 0))
        base = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(peak - base) + tl.sum(tl.exp(x - base), 0)
        peak = new
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        x = tl.load(x_ptr + start + at, mask=inside, other=float("-inf"))
        x += tl.load(mask_ptr + start + at, mask=inside, other=0.0)
        tl.store(out_ptr + start + at, tl.exp(x - peak) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, mask):
        scores = scores.contiguous()
        if mask.stride(-1) != 1:
            mask = mask.contiguous()
        heads, rows, columns = scores.shape
        out = torch.empty_like(scores)
        shares_kernel[(heads, rows)](scores, mask, out, rows, columns, mask.stride(0), mask.stride(1), BLOCK=16)
        return out
