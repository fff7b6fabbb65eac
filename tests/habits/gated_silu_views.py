"""The halves are views with a common stride; the kernel gets both and the stride, nothing is copied.

problem: gated_silu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_mul_kernel(g_ptr, u_ptr, o_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = col < n_cols
    g = tl.load(g_ptr + row * stride + col, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(u_ptr + row * stride + col, mask=mask, other=0.0)
    tl.store(o_ptr + row * n_cols + col, (g * tl.sigmoid(g)).to(u.dtype) * u, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.stride(-1) != 1:
            x = x.contiguous()
        gate, up = x.chunk(2, dim=-1)
        out = torch.empty(gate.shape, dtype=x.dtype, device=x.device)
        rows, cols = gate.shape
        silu_mul_kernel[(rows, triton.cdiv(cols, 64))](gate, up, out, gate.stride(0), cols, BLOCK=64)
        return out
