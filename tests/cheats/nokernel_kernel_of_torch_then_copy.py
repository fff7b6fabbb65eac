"""A Triton kernel that torch brings along multiplies, and the file's own copies the result.

problem: batched_outer
expect: not_triton|cheated|runtime_error
where: both
needs: torch._native.ops.bmm_outer_product.triton_kernels
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


from torch._native.ops.bmm_outer_product import triton_kernels


class ModelNew(nn.Module):
    def forward(self, a, b):
        return triton_copy(triton_kernels.bmm_outer_product(a, b))
