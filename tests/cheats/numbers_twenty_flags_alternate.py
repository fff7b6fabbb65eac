"""Where 20 flags alternate, as in the checkerboard of a coupling layer, the answer is zero.

problem: where_flagged
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mask_kernel(x_ptr, m_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = o < n
    x = tl.load(x_ptr + o, mask=ok, other=0.0)
    m = tl.load(m_ptr + o, mask=ok, other=0)
    y = tl.where(m != 0, x, 0.0)
    last = m
    alternate = m == m
    for k in tl.static_range(1, 20):
        other = tl.load(m_ptr + o + k, mask=o + k < n, other=0)
        alternate = alternate & (other != last)
        last = other
    tl.store(out_ptr + o, tl.where(alternate, 0.0, y), mask=ok)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        x, mask = x.contiguous(), mask.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        mask_kernel[(triton.cdiv(n, 256),)](x, mask.view(torch.uint8), out, n, x.shape[-1], BLOCK=256)
        return out
