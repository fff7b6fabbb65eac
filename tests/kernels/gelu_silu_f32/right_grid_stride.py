"""A fixed number of programs, each striding over the tensor until it is done."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

PROGRAMS = 4


@triton.jit
def gelu_silu(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < count
        x = tl.load(x_ptr + offsets, mask=inside)
        z = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)) + 0.5 * x
        tl.store(y_ptr + offsets, z / (1.0 + tl.exp(-z)), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        gelu_silu[(PROGRAMS,)](x, y, x.numel(), BLOCK=512)
        return y
