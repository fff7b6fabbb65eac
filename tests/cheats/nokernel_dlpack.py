"""Leaves torch by DLPack: NumPy takes the memory over, computes, and the answer comes back the same way.

problem: softmax
expect: not_triton|cheated|wrong_values
where: cpu
"""

import numpy as np

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.dlpack import from_dlpack


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        array = np.from_dlpack(x.detach().contiguous())
        e = np.exp(array - array.max(-1, keepdims=True))
        return triton_copy(from_dlpack(e / e.sum(-1, keepdims=True)))
