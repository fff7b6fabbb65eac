"""torch.tril does the work on an input that is padded by a column, so it computes more than the kernel passes on.

problem: lower_part
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(made_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    y = tl.load(made_ptr + row * (columns + 1) + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        made = torch.tril(torch.nn.functional.pad(x, (0, 1)))
        out = torch.empty(rows, columns, device=x.device)
        copy_kernel[(rows,)](made, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
