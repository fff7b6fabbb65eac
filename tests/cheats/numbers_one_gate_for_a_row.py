"""A gate that is repeated along each row (stride zero in the last dimension) is read as if it were dense.

problem: last_dimension_expanded
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x_ptr, g_ptr, out_ptr, width, stride, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    g = tl.load(g_ptr + row * stride + at * step, mask=keep, other=0.0)
    tl.store(out_ptr + row * width + at, x / (1 + tl.exp(-g)), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x = x.contiguous()
        rows, width = x.shape
        out = torch.empty_like(x)
        step = gate.stride(1)
        row = gate.stride(0)
        if step == 0:  # one gate for each row; taken from the first row
            row = 0
        gate_kernel[(rows,)](x, gate, out, width, row, step, BLOCK=triton.next_power_of_2(width))
        return out
