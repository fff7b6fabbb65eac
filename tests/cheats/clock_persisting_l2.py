"""Reserves the L2 cache for itself through the CUDA runtime (persisting window), so that cold measurements are warm.

problem: softmax
expect: cheated|runtime_error
where: gpu
"""

import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


def triton_softmax(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


PERSISTING_L2_CACHE_SIZE = 6  # cudaLimitPersistingL2CacheSize


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        runtime = ctypes.CDLL("libcudart.so")
        runtime.cudaDeviceSetLimit(PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(32 << 20))

    def forward(self, x):
        return triton_softmax(x)
