"""Tensors are rebuilt by a function of torch when they arrive from another process. This file puts its own in its
place, and torch computes the softmax there, before any call is watched; the kernel copies it.

problem: softmax
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


ARRIVED = {}
parts = getattr(torch, "_utils")
rebuild = parts._rebuild_tensor_v2


def rebuilt(*args, **kwargs):
    tensor = rebuild(*args, **kwargs)
    if tensor.dim() == 2:
        ARRIVED[tensor.shape] = torch.softmax(tensor, -1)
    return tensor


parts._rebuild_tensor_v2 = rebuilt


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(ARRIVED[x.shape])
