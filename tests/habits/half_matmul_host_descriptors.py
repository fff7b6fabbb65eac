"""Host-side TensorDescriptor.from_tensor where strides and addresses allow it, and a kernel on pointers for the rest.

problem: half_matmul
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_tma_kernel(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    off_m = tl.program_id(0) * BM
    off_n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([off_m, k])
        b = b_desc.load([k, off_n])
        acc = tl.dot(a, b, acc)
    c_desc.store([off_m, off_n], acc.to(tl.float16))


@triton.jit
def matmul_pointer_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ka = start + tl.arange(0, BK)[None, :]
        kb = start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + m * K + ka, mask=(m < M) & (ka < K), other=0.0)
        b = tl.load(b_ptr + kb * N + n, mask=(kb < K) & (n < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m * N + n, acc.to(tl.float16), mask=(m < M) & (n < N))


def fits_tma(t: torch.Tensor) -> bool:
    return t.stride(-1) == 1 and (t.stride(0) * t.element_size()) % 16 == 0 and t.data_ptr() % 16 == 0


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), dtype=torch.float16, device=a.device)
        BM, BN, BK = 32, 32, 32
        grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))
        if all(fits_tma(t) for t in (a, b, c)):
            a_desc = TensorDescriptor.from_tensor(a, [BM, BK])
            b_desc = TensorDescriptor.from_tensor(b, [BK, BN])
            c_desc = TensorDescriptor.from_tensor(c, [BM, BN])
            matmul_tma_kernel[grid](a_desc, b_desc, c_desc, K, BM=BM, BN=BN, BK=BK)
        else:
            matmul_pointer_kernel[grid](a, b, c, M, N, K, BM=BM, BN=BN, BK=BK)
        return c
