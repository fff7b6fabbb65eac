"""Looks odd: registers an allocator with Triton, a global setting. Honest: descriptors made in a kernel need one.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_by_descriptor_kernel(x_ptr, out_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BR, BC])
    target = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BR, BC])
    row, column = tl.program_id(0) * BR, tl.program_id(1) * BC
    x = source.load([row, column])
    target.store([row, column], tl.where(x < 0, 0.0, x))


@triton.jit
def relu_by_pointer_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def workspace(size: int, alignment: int, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        if x.dim() == 2 and x.shape[1] % 4 == 0 and x.data_ptr() % 16 == 0:
            triton.set_allocator(workspace)
            rows, columns = x.shape
            grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 64))
            relu_by_descriptor_kernel[grid](x, out, rows, columns, BR=16, BC=64)
        else:
            relu_by_pointer_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
