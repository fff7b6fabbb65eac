"""torch scans; one kernel adds a ramp to the inputs before, the other takes the sum of the ramp away again.

problem: scan_scaled
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shift_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, x + (at % 3) * 0.0625, mask=at < columns)


@triton.jit
def unshift_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    ramp = at // 3 * 3 + tl.where(at % 3 == 0, 0, tl.where(at % 3 == 1, 1, 3))
    tl.store(out_ptr + row * columns + at, (x - ramp * 0.0625) * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        columns = x.shape[-1]
        shifted, out = torch.empty_like(x), torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        shift_kernel[(x.numel() // columns,)](x, shifted, columns, BLOCK=block)
        made = torch.cumsum(shifted, -1)
        unshift_kernel[(x.numel() // columns,)](made, out, columns, BLOCK=block)
        return out
