"""Softmax in one pass: a row whose first block a mask hides becomes NaN, as minus infinity is taken from itself.

problem: masked_shares
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shares_kernel(x_ptr, mask_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    peak = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        x = tl.load(x_ptr + row * columns + start + at, mask=inside, other=float("-inf"))
        x += tl.load(mask_ptr + row * columns + start + at, mask=inside, other=0.0)
        new = tl.maximum(peak, tl.max(x, 0))
        total = total * tl.exp(peak - new) + tl.sum(tl.exp(x - new), 0)
        peak = new
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        x = tl.load(x_ptr + row * columns + start + at, mask=inside, other=float("-inf"))
        x += tl.load(mask_ptr + row * columns + start + at, mask=inside, other=0.0)
        tl.store(out_ptr + row * columns + start + at, tl.exp(x - peak) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, mask):
        scores, mask = scores.contiguous(), mask.contiguous()
        columns = scores.shape[-1]
        out = torch.empty_like(scores)
        shares_kernel[(scores.numel() // columns,)](scores, mask, out, columns, BLOCK=16)
        return out
