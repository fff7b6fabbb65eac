"""Of equal numbers in several blocks the one in the last block is taken.

problem: places_of_largest
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = float("-inf")
    place = 0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
        x = tl.where(x != x, float("inf"), x)
        top = tl.max(x, 0)
        here = start + tl.argmax(x, 0)
        place = tl.where(top >= best, here, place)
        best = tl.maximum(best, top)
    tl.store(out_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        argmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
        return out
