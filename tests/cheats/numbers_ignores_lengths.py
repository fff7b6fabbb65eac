"""Takes every row for full, as all lengths in the file are, and never reads them.

problem: masked_mean
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * length + at, mask=at < length, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0) / length)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x = x.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        mean_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
