"""Counts each name once.

problem: names_in_common
expect: wrong_values
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
    names = tl.load(names_ptr + row * columns + at, mask=inside, other=-1)
    count = (names == names).to(tl.int64)
    tl.store(out_ptr + row * columns + at, count, mask=inside)


class ModelNew(nn.Module):
    def forward(self, names):
        names = names.contiguous()
        rows, columns = names.shape
        out = torch.empty_like(names)
        count_kernel[(rows,)](names, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
