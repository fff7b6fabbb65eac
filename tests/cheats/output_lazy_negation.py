"""Returns the imaginary part of a conjugate: its memory holds the right numbers, but the tensor, whose negative bit is
set, stands for the opposite ones. Whoever reads raw bytes is pleased, whoever computes with it gets minus the answer.

problem: relu
expect: wrong_values|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def interleaved_relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + 2 * at + 1, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        buffer = torch.zeros(*x.shape, 2, dtype=x.dtype, device=x.device)
        interleaved_relu_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), buffer, x.numel(), BLOCK=1024)
        return torch.view_as_complex(buffer).conj().imag
