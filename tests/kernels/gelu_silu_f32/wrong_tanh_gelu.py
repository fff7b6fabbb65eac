"""The tanh approximation of GELU where the exact one is asked for.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_silu(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    gelu = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    z = gelu + 0.5 * x
    tl.store(y_ptr + offsets, z * tl.sigmoid(z), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        count = x.numel()
        gelu_silu[(triton.cdiv(count, 1024),)](x, y, count, BLOCK=1024)
        return y
