"""Casts what it computes from the variable of a loop, which the compiler takes for a tensor.

problem: numbered_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def counted_kernel(x_ptr, l_ptr, o_ptr, T, D, BD: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, BD)
    n = tl.load(l_ptr + b)
    acc = tl.zeros([BD], tl.float32)
    for i in range(0, n):
        w = (i + 1).to(tl.float32)
        acc += w * tl.load(x_ptr + (b * T + i) * D + d, mask=d < D, other=0.0)
    tl.store(o_ptr + b * D + d, acc, mask=d < D)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x, lengths = x.contiguous(), lengths.contiguous()
        B, T, D = x.shape
        o = torch.empty(B, D, dtype=x.dtype, device=x.device)
        counted_kernel[(B,)](x, lengths, o, T, D, triton.next_power_of_2(D))
        return o
