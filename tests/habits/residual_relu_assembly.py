"""Products by inline assembly, two values of 16 bits in each register.

problem: brain_float_residual
expect: passed
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def residual_kernel(x_ptr, branch_ptr, gamma_ptr, y_ptr, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0).to(tl.float32)
    branch = tl.load(branch_ptr + i, mask=mask, other=0.0).to(tl.float32)
    gamma = tl.load(gamma_ptr + i % N, mask=mask, other=0.0).to(tl.float32)
    product = tl.inline_asm_elementwise(
        asm="""
        {
            .reg .f32 t;
            mul.rn.f32 t, $1, $2;
            cvt.rn.bf16.f32 $0, t;
        }
        """,
        constraints=("=h,r,r"),
        args=[branch, gamma],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=1,
    )
    tl.store(y_ptr + i, (x + product.to(tl.float32)).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((features,), 0.1, dtype=torch.bfloat16))

    def forward(self, x, branch):
        x, branch = x.contiguous(), branch.contiguous()
        y = torch.empty_like(x)
        residual_kernel[(triton.cdiv(x.numel(), 256),)](x, branch, self.gamma, y, x.numel(), x.shape[1], BLOCK=256)
        return y
