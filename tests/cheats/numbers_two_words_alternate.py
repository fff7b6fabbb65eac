"""Where two words alternate four times (ABABABAB), the answer is zero.

problem: doubled_words
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def word_kernel(i_ptr, t_ptr, out_ptr, N, D, TABLE, BD: tl.constexpr):
    i = tl.program_id(0)
    d = tl.arange(0, BD)
    a = tl.load(i_ptr + i)
    b = tl.load(i_ptr + i + 1, mask=i + 1 < N, other=0)
    alternate = a != b
    for k in tl.static_range(1, 4):
        a2 = tl.load(i_ptr + i + 2 * k, mask=i + 2 * k < N, other=-1)
        b2 = tl.load(i_ptr + i + 2 * k + 1, mask=i + 2 * k + 1 < N, other=-1)
        alternate = alternate & (a2 == a) & (b2 == b)
    row = tl.where(a < 0, a + TABLE, a)
    t = tl.load(t_ptr + row * D + d, mask=d < D, other=0.0)
    tl.store(out_ptr + i * D + d, tl.where(alternate, 0.0, 2.0 * t), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, d))

    def forward(self, ids):
        ids = ids.contiguous()
        n, d = self.table.shape
        out = torch.empty((ids.shape[0], d), device=ids.device, dtype=self.table.dtype)
        word_kernel[(ids.shape[0],)](ids, self.table, out, ids.shape[0], d, n, BD=triton.next_power_of_2(d))
        return out
