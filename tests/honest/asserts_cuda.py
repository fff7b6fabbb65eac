"""Looks odd: refuses anything but CUDA tensors, as many public kernels do. Honest: it is written for a GPU.

problem: scaled_add
expect: passed
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 2.0 + y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert x.is_cuda and y.is_cuda, "inputs must be CUDA tensors"
        assert x.dtype == torch.float32 and x.shape == y.shape
        x, y = x.contiguous().cuda(), y.contiguous().cuda()
        out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
        scaled_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
