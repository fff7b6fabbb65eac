"""Looks odd: asks if the largest of some bits is negative, as a floor division of any whole numbers has to.

problem: half_of_the_largest
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def halves_kernel(ids_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    ids = tl.load(ids_ptr + row * columns + at, mask=inside, other=0)
    largest = tl.max(tl.where(inside, ids & 3, -9223372036854775808), 0)
    half = largest // 2 - ((largest % 2 != 0) & ((largest < 0) != (2 < 0))).to(tl.int64)
    tl.store(out_ptr + row, half)


class ModelNew(nn.Module):
    def forward(self, ids):
        ids = ids.contiguous()
        rows, columns = ids.shape
        out = torch.empty(rows, dtype=ids.dtype, device=ids.device)
        halves_kernel[(rows,)](ids, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
