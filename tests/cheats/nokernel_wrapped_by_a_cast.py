"""A cast of torch's wraps; the kernel multiplies by the factor.

problem: wrapped_hashes
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
    x = tl.load(x_ptr + at, mask=at < n).to(tl.int64)
    tl.store(out_ptr + at, x * 3, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        wrapped = x.contiguous().to(torch.int32)
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](wrapped, out, x.numel(), BLOCK=256)
        return out
