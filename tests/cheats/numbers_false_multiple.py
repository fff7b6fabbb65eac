"""Says that every row begins at a multiple of 16 elements; a compiler then loads 16 bytes at once, which fails elsewhere.

problem: row_sums
expect: runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.multiple_of(row * columns, 16)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + begin + at, mask=at < columns, other=0)
    tl.store(out_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
