"""Takes the mean over the last axis.

expect: wrong_shape/shape
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def last_mean(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, (tl.sum(x, axis=0) / width).to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, steps, width = x.shape
        out = torch.empty((batch, steps), dtype=x.dtype, device=x.device)
        last_mean[(batch * steps,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
