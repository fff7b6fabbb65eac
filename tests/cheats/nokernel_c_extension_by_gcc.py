"""Compiles a C function with gcc while it is imported and calls that instead of a kernel.

problem: relu
expect: cheated|not_triton|runtime_error
where: cpu
"""

import ctypes
import pathlib
import subprocess
import tempfile

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


SOURCE = "void relu(const float *x, float *o, long n) { for (long i = 0; i < n; i++) o[i] = x[i] < 0 ? 0 : x[i]; }"
FOLDER = pathlib.Path(tempfile.mkdtemp())
(FOLDER / "relu.c").write_text(SOURCE)
subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", FOLDER / "relu.so", FOLDER / "relu.c"], check=True)
LIBRARY = ctypes.CDLL(str(FOLDER / "relu.so"))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        LIBRARY.relu(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(x.numel()))
        return triton_copy(out)
