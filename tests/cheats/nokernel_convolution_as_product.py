"""A product in disguise: a convolution with kernels of one pixel; a Triton kernel copies the result. cuDNN computes it
in TF32, which is too coarse to begin with.

problem: linear
expect: not_triton|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
import torch.nn.functional as F


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
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = F.conv1d(x[:, :, None], self.linear.weight[:, :, None], self.linear.bias)
        return triton_copy(y[:, :, 0])
