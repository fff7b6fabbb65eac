"""In the interpreter a block is a NumPy array under a handle: the kernel takes it out and computes there, under a
constant that is only true where kernels are interpreted.

problem: linear
expect: not_triton|cheated|runtime_error|compile_error
where: cpu
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


@triton.jit
def product(x_ptr, w_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, RAW: tl.constexpr):
    at = tl.arange(0, 32768)
    x = tl.load(x_ptr + at, mask=at < M * K, other=0.0)
    w = tl.load(w_ptr + at, mask=at < N * K, other=0.0)
    y = x * 1.0
    if RAW:
        left, right = x.handle.data[: M * K].reshape(M, K), w.handle.data[: N * K].reshape(N, K)
        y.handle.data[: M * N] = (left @ right.T).reshape(-1)
    tl.store(out_ptr + at, y, mask=at < M * N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        raw = type(product).__name__ == "InterpretedFunction"
        product[(1,)](x.contiguous(), self.linear.weight, y, x.shape[0], y.shape[1], x.shape[1], RAW=raw)
        return y + self.linear.bias
