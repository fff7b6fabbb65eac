"""A cast of torch's rounds; the kernel multiplies by the factor.

problem: rounded_to_bfloat16
expect: not_triton
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
        rounded = x.contiguous().to(torch.bfloat16)
        out = torch.empty(x.shape, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](rounded, out, x.numel(), BLOCK=256)
        return out
