"""Descriptors made in the kernel, with an allocator set at each call; widths that no descriptor takes are padded by
torch.

problem: half_matmul
expect: passed
where: both
"""

from typing import Optional

import torch.nn.functional as F

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([k, col]), acc)
    c_desc.store([row, col], acc.to(tl.float16))


def alloc_fn(size: int, alignment: int, stream: Optional[int]):
    return torch.empty(size, device="cuda", dtype=torch.int8)


def padded(t: torch.Tensor) -> torch.Tensor:
    """The last dimension rounded up to 16 bytes, at an aligned address."""
    missing = -t.shape[-1] % 8
    t = F.pad(t, (0, missing)) if missing else t.contiguous()
    return t if t.data_ptr() % 16 == 0 else t.clone()


class ModelNew(nn.Module):
    def forward(self, a, b):
        triton.set_allocator(alloc_fn)
        M, N = a.shape[0], b.shape[1]
        missing = -a.shape[1] % 8
        if missing:
            b = F.pad(b, (0, 0, 0, missing))
        a, b = padded(a), padded(b)
        c = torch.empty((M, b.shape[1]), dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(M, 32), triton.cdiv(b.shape[1], 32))
        matmul_kernel[grid](a, b, c, M, b.shape[1], a.shape[1], BM=32, BN=32, BK=16, num_stages=2)
        return c if b.shape[1] == N else c[:, :N].contiguous()
