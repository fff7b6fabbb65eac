"""The reference copies its input to bfloat16 by torch, and so does this file; the kernel does the rest.

problem: half_and_scaled
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, x * 1.5, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        narrow = x.to(torch.bfloat16).contiguous()
        out = torch.empty(x.shape, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](narrow, out, x.numel(), BLOCK=256)
        return out
