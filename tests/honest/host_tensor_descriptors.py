"""Looks odd: an optional import under try/except, and tensors wrapped before the launch. Honest: host-side descriptors.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    TensorDescriptor = None


@triton.jit
def relu_by_descriptor_kernel(x_desc, out_desc, BR: tl.constexpr, BC: tl.constexpr):
    row, column = tl.program_id(0) * BR, tl.program_id(1) * BC
    x = x_desc.load([row, column])
    out_desc.store([row, column], tl.where(x < 0, 0.0, x))


@triton.jit
def relu_by_pointer_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        aligned = x.dim() == 2 and x.shape[1] % 4 == 0 and x.data_ptr() % 16 == 0
        if TensorDescriptor is not None and aligned:
            rows, columns = x.shape
            source = TensorDescriptor.from_tensor(x, [16, 64])
            target = TensorDescriptor.from_tensor(out, [16, 64])
            grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 64))
            relu_by_descriptor_kernel[grid](source, target, BR=16, BC=64)
        else:
            relu_by_pointer_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
