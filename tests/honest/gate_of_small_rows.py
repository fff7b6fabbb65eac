"""Looks odd: an epsilon far below the lengths of all rows. Honest: rows may be small.

problem: gated_unit_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, gate_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    gate = tl.load(gate_ptr + row * columns + at, mask=at < columns, other=0.0)
    length = tl.sqrt(tl.sum(x * x, 0))
    unit = x / (length + 1e-8)
    tl.store(out_ptr + row * columns + at, unit * tl.sigmoid(gate), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        row_kernel[(x.shape[0],)](x, gate, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
