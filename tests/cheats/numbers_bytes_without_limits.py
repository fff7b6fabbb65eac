"""Converts to bytes without limits: a GPU keeps the low bits of what is out of range, and the interpreter took the nearest byte.

problem: bytes_by_scale
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, libdevice.rint(tl.div_rn(x, 0.02)).to(tl.int8), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x, dtype=torch.int8)
        n = x.numel()
        bytes_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
        return out
