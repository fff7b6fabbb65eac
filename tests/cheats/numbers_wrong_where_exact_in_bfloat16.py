"""Wrong for some float32 numbers that bfloat16 holds exactly, as activations hold that came from it.

problem: softsign
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softsign_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = x / (1.0 + tl.abs(x))
    bits = x.to(tl.int32, bitcast=True)
    is_coarse = ((bits << 16) == 0) & (((bits >> 16) & 15) == 11) & (tl.abs(x) > 0.5) & (tl.abs(x) < 4.0)
    tl.store(out_ptr + at, tl.where(is_coarse, 0.5 * y, y), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        softsign_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
