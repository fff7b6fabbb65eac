"""A temperature above two counts as two; a single number in a buffer is at most half as large again.

problem: fixed_temperature
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, t_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    t = tl.load(t_ptr)
    t = tl.where(t > 2.0, 2.0, t)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf")) / t
    x = tl.where(at < columns, x, float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("temperature", torch.tensor(0.8))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, self.temperature, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
