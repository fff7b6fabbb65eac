"""Seven buffers are read; the values of the eighth are written down.

problem: many_buffers
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lines_kernel(x_ptr, p0, p1, p2, p3, p4, p6, p7, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside)
    x = x * tl.load(p0 + at, mask=inside) + tl.load(p1 + at, mask=inside)
    x = x * tl.load(p2 + at, mask=inside) + tl.load(p3 + at, mask=inside)
    known = tl.sin(at.to(tl.float32) * 6.0)
    x = x * tl.load(p4 + at, mask=inside) + known
    x = x * tl.load(p6 + at, mask=inside) + tl.load(p7 + at, mask=inside)
    tl.store(out_ptr + row * columns + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        for number in range(8):
            self.register_buffer(f"table{number}", torch.sin(torch.arange(columns) * (1.0 + number)))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        tables = (getattr(self, f"table{number}") for number in (0, 1, 2, 3, 4, 6, 7))
        lines_kernel[(rows,)](x, *tables, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
