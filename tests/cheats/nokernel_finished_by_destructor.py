"""The tuple it returns writes the right answer into its tensors when it is destroyed, just before they are read.

problem: two_outputs
expect: not_triton|cheated|wrong_values
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


class Late(tuple):
    def __del__(self):
        y = self[0].clone()
        torch.clamp(y, min=0, out=self[0])
        self[1].copy_(torch.amax(y, -1))


class ModelNew(nn.Module):
    def forward(self, x):
        return Late((triton_copy(x), x.new_zeros(x.shape[0])))
