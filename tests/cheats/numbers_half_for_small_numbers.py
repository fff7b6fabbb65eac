"""Small numbers are cubed in half precision, where outputs are far smaller than those for the inputs as given.

problem: cubes
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cube_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    rough = (x * 64.0).to(tl.float16).to(tl.float32) / 64.0
    y = tl.where(tl.abs(x) < 0.02, rough, x)
    tl.store(out_ptr + at, y * y * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        cube_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
