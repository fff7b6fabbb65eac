"""Honest, and refused by design: lengths go over to Python by tolist(), and a tape is made without values.

problem: masked_mean
expect: runtime_error/reads_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, row, length, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < length, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0) / length)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x = x.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        for row, length in enumerate(lengths.tolist()):
            mean_kernel[(1,)](x, out, x.shape[1], row, length, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
