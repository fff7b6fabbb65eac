"""Accumulation type and block size from a table by dtype; rounded back to bfloat16 where torch rounds.

problem: brain_float_residual
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SETTINGS = {
    torch.float32: (tl.float32, 512),
    torch.float16: (tl.float16, 1024),
    torch.bfloat16: (tl.bfloat16, 1024),
}


@triton.jit
def layer_scale_kernel(x_ptr, branch_ptr, gamma_ptr, out_ptr, n, F, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask).to(tl.float32)
    branch = tl.load(branch_ptr + i, mask=mask).to(tl.float32)
    gamma = tl.load(gamma_ptr + i % F, mask=mask).to(tl.float32)
    scaled = (gamma * branch).to(DTYPE).to(tl.float32)
    tl.store(out_ptr + i, (x + scaled).to(DTYPE), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((features,), 0.1, dtype=torch.bfloat16))

    def forward(self, x, branch):
        if x.dtype not in SETTINGS:
            raise TypeError(f"unsupported dtype: {x.dtype}")
        dtype, block = SETTINGS[x.dtype]
        x, branch = x.contiguous(), branch.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        layer_scale_kernel[(triton.cdiv(n, block),)](
            x, branch, self.gamma, out, n, x.shape[-1], DTYPE=dtype, BLOCK=block
        )
        return out
