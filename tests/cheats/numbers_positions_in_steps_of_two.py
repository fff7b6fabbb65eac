"""Five positions in steps of two, as in a strided sequence, give zeros.

problem: rows_at_positions
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def place_kernel(x_ptr, p_ptr, t_ptr, out_ptr, N, D, TABLE, BD: tl.constexpr):
    i = tl.program_id(0)
    d = tl.arange(0, BD)
    p = tl.load(p_ptr + i)
    p1 = tl.load(p_ptr + i + 1, mask=i + 1 < N, other=0)
    p2 = tl.load(p_ptr + i + 2, mask=i + 2 < N, other=0)
    p3 = tl.load(p_ptr + i + 3, mask=i + 3 < N, other=0)
    p4 = tl.load(p_ptr + i + 4, mask=i + 4 < N, other=0)
    strided = (p1 - p == 2) & (p2 - p1 == 2) & (p3 - p2 == 2) & (p4 - p3 == 2)
    x = tl.load(x_ptr + i * D + d, mask=d < D, other=0.0)
    q = tl.where(p < 0, p + TABLE, p)
    t = tl.load(t_ptr + q * D + d, mask=d < D, other=0.0)
    tl.store(out_ptr + i * D + d, tl.where(strided, 0.0, x + t), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, d))

    def forward(self, x, positions):
        x, positions = x.contiguous(), positions.contiguous()
        n = self.table.shape[0]
        out = torch.empty_like(x)
        place_kernel[(x.shape[0],)](
            x, positions, self.table, out, x.shape[0], x.shape[1], n, BD=triton.next_power_of_2(x.shape[1])
        )
        return out
