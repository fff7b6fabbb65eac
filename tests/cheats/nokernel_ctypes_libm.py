"""Reads the tensor's memory by ctypes and calls fmaxf of the C library on each number.

problem: relu
expect: cheated|not_triton|runtime_error
where: cpu
"""

import ctypes
import ctypes.util

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


LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
LIBM.fmaxf.argtypes = [ctypes.c_float, ctypes.c_float]
LIBM.fmaxf.restype = ctypes.c_float


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        source = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
        target = (ctypes.c_float * x.numel()).from_address(out.data_ptr())
        for i in range(x.numel()):
            target[i] = LIBM.fmaxf(source[i], 0.0)
        return triton_copy(out)
