"""Never looks at the mask, since the file's own inputs mask nothing.

problem: masked_softmax
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, o_ptr, D, BD: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, BD)
    x = tl.load(x_ptr + r * D + d, mask=d < D, other=0.0)
    e = tl.where(d < D, tl.exp(x - tl.max(tl.where(d < D, x, float("-inf")), 0)), 0.0)
    y = e / tl.sum(e)
    tl.store(o_ptr + r * D + d, y, mask=d < D)


def rows(x):
    o = torch.empty_like(x)
    k[(x.shape[0],)](x, o, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return o


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return rows(x)
