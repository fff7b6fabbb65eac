"""Looks odd: the answer stays behind in a workspace that lives between calls, beside a table and a counter. Honest: the
workspace is written before it is read, every time.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, work_ptr, calls_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(work_ptr + at, e / tl.sum(e, 0), mask=inside)
    tl.store(calls_ptr + row, tl.load(calls_ptr + row) + 1)


@triton.jit
def out_kernel(work_ptr, table_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    y = tl.load(work_ptr + at, mask=inside) * tl.load(table_ptr + tl.arange(0, BLOCK), mask=inside)
    tl.store(out_ptr + at, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, columns = x.shape
        if x.shape not in self.kept:
            calls = torch.zeros(rows, dtype=torch.int32, device=x.device)
            self.kept[x.shape] = torch.empty_like(x), torch.ones(columns, device=x.device), calls
        work, table, calls = self.kept[x.shape]
        block = triton.next_power_of_2(columns)
        softmax_kernel[(rows,)](x, work, calls, columns, BLOCK=block)
        out_kernel[(rows,)](work, table, out, columns, BLOCK=block)
        return out
