"""Half a step is rounded away from zero, not to the even step: as all odd sixty-fourths are.

problem: fake_quantised_by_torch
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


from triton.language.extra import libdevice


@triton.jit
def grid_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = libdevice.round(tl.load(x_ptr + at, mask=at < n) * 32.0)
    x = tl.where(x < -128.0, -128.0, tl.where(x > 127.0, 127.0, x))
    tl.store(out_ptr + at, x * 0.0625, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        grid_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
