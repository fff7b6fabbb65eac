"""The output is right, but the running statistics, which the reference moves on each call, stand still.

problem: batch_norm_train
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, rows, features, eps, BR: tl.constexpr, BF: tl.constexpr):
    f = tl.program_id(0) * BF + tl.arange(0, BF)
    at = tl.arange(0, BR)[:, None] * features + f[None, :]
    inside = (tl.arange(0, BR)[:, None] < rows) & (f[None, :] < features)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - (tl.sum(x, 0) / rows)[None, :], 0.0)
    scale = tl.load(w_ptr + f, mask=f < features) / tl.sqrt(tl.sum(centred * centred, 0) / rows + eps)
    tl.store(out_ptr + at, centred * scale[None, :] + tl.load(b_ptr + f, mask=f < features)[None, :], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        norm, x = self.norm, x.contiguous()
        rows, features = x.shape
        out = torch.empty_like(x)
        batch_norm_kernel[(triton.cdiv(features, 32),)](
            x, norm.weight, norm.bias, out, rows, features, norm.eps, BR=triton.next_power_of_2(rows), BF=32
        )
        return out
