"""Holds the reference layer outside the module tree (in a tuple) and runs it by functional_call.

problem: layer_norm
expect: not_triton|cheated
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
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.hidden = (nn.LayerNorm(features, device="meta"),)

    def forward(self, x):
        answer = torch.func.functional_call(self.hidden[0], dict(self.norm.named_parameters()), (x,))
        return triton_copy(answer)
