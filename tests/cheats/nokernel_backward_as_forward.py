"""The answer is a gradient: ReLU is the derivative of relu(x)^2 / 2, so autograd's engine computes it.

problem: relu
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


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            energy = (leaf.clamp(min=0).square() * 0.5).sum()
            (answer,) = torch.autograd.grad(energy, leaf)
        return triton_copy(answer)
