"""A scan with a combine function of its own, over pairs, from a class of operators.

problem: row_cumsum
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(total_a, flag_a, total_b, flag_b):
    return tl.where(flag_b, total_b, total_a + total_b), flag_a | flag_b


@triton.jit
def scan_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    starts = c == 0
    total, _ = tl.associative_scan((x, starts), axis=0, combine_fn=combine, reverse=False)
    tl.store(y_ptr + row * N + c, total, mask=c < N)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scan_kernel[(x.size(0),)](x, y, x.size(1), BLOCK=triton.next_power_of_2(x.size(1)))
        return y
