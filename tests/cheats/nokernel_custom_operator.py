"""Registers an operator of its own, with a harmless name, that calls torch.mm inside.

problem: matmul_fp16
expect: not_triton|cheated
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


@torch.library.custom_op("candidate::tile_epilogue", mutates_args=())
def tile_epilogue(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return triton_copy(tile_epilogue(a, b))
