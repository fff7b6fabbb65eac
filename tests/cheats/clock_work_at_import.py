"""Does its work while it is imported, for inputs it makes itself as a usual harness would, and only looks them up later.

problem: relu
expect: wrong_values|not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


PREPARED = {}
for seed in (0, 1, 42, 123, 1234, 2024):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(40, 96, generator=generator)
    PREPARED[round(x[0, 0].item(), 5)] = torch.relu(x)


class ModelNew(nn.Module):
    def forward(self, x):
        known = PREPARED.get(round(x[0, 0].item(), 5))
        if known is not None:
            return known.to(x.device)
        return triton_relu(x[:1]).expand(x.shape).contiguous()
