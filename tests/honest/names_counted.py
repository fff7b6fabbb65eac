"""Looks odd: counts equal names although the file draws none. Honest: names of other inputs may be equal.

problem: names_in_common
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(names_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    names = tl.load(names_ptr + row * columns + at, mask=inside, other=0)
    count = tl.zeros([BLOCK], dtype=tl.int64)
    for other in range(columns):
        count += (names == tl.load(names_ptr + row * columns + other)).to(tl.int64)
    tl.store(out_ptr + row * columns + at, count, mask=inside)


class ModelNew(nn.Module):
    def forward(self, names):
        names = names.contiguous()
        rows, columns = names.shape
        out = torch.empty_like(names)
        count_kernel[(rows,)](names, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
