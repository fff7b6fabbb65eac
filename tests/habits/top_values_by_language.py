"""The largest values by tl.topk.

problem: top_values
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def top_kernel(x_ptr, y_ptr, N, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    tl.store(y_ptr + row * K + tl.arange(0, K), tl.topk(x, K))


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.new_empty((x.shape[0], 8))
        top_kernel[(x.shape[0],)](x.contiguous(), y, x.shape[1], K=8, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
