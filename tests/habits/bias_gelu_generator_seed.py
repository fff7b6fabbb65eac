"""The seed of the dropout is drawn from a generator of the GPU.

problem: bias_gelu_dropout
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_gelu_dropout_kernel(x_ptr, b_ptr, seed_ptr, y_ptr, n, N, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0) + tl.load(b_ptr + i % N, mask=mask, other=0.0)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    keep = tl.rand(tl.load(seed_ptr), i) >= p
    tl.store(y_ptr + i, tl.where(keep, y / (1.0 - p), 0.0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features, p):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.p = p
        self.generator = torch.Generator(device="cuda")
        self.generator.manual_seed(1234)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        p = self.p if self.training else 0.0
        seed = torch.randint(0, 2**31 - 1, (1,), generator=self.generator, device=x.device, dtype=torch.int32)
        bias_gelu_dropout_kernel[(triton.cdiv(n, 256),)](x, self.bias, seed, y, n, x.shape[-1], p, BLOCK=256)
        return y
