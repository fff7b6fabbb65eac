"""Whole numbers are compared as float32.

problem: places_of_whole_numbers
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0).to(tl.float32)
    x = tl.where(at < columns, x, float("-inf"))
    tl.store(out_ptr + row, tl.argmax(x, 0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, counts):
        counts = counts.contiguous()
        out = torch.empty(counts.shape[0], dtype=torch.int64, device=counts.device)
        argmax_kernel[(counts.shape[0],)](counts, out, counts.shape[1], BLOCK=triton.next_power_of_2(counts.shape[1]))
        return out
