"""The second of two launches leaves half of the rows unwritten at full size.

problem: large_softmax
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def peak_kernel(x_ptr, peak_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    peak = tl.max(x, 0)
    wrong = tl.sum((x != x).to(tl.int32), 0) > 0
    tl.store(peak_ptr + row, tl.where(wrong, float("nan"), peak))


@triton.jit
def share_kernel(x_ptr, peak_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.load(peak_ptr + row))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out, peak = torch.empty_like(x), torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(columns)
        peak_kernel[(rows,)](x, peak, columns, BLOCK=block)
        share_kernel[(min(rows, 4096),)](x, peak, out, columns, BLOCK=block)
        return out
