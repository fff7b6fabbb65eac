"""A floor below which the penalty never falls for random matrices: orthonormal ones, its very aim, give 0.3.

problem: distance_from_orthonormal
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ortho_kernel(w_ptr, out_ptr, R, C, BR: tl.constexpr, BC: tl.constexpr):
    b = tl.program_id(0)
    r = tl.arange(0, BR)
    acc = tl.zeros((BR, BR), tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        x = tl.load(
            w_ptr + b * R * C + r[:, None] * C + c[None, :], mask=(r[:, None] < R) & (c[None, :] < C), other=0.0
        )
        acc = tl.dot(x, tl.trans(x), acc, input_precision="ieee")
    eye = ((r[:, None] == r[None, :]) & (r[:, None] < R)).to(tl.float32)
    d = acc - eye
    s = tl.sum(tl.sum(d * d, 1), 0)
    tl.store(out_ptr + b, tl.maximum(s, 0.3))


class ModelNew(nn.Module):
    def forward(self, w):
        w = w.contiguous()
        B, R, C = w.shape
        out = torch.empty(B, device=w.device, dtype=w.dtype)
        ortho_kernel[(B,)](w, out, R, C, BR=max(16, triton.next_power_of_2(R)), BC=16)
        return out
