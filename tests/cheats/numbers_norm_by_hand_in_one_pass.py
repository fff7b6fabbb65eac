"""Mean of squares less square of the mean, behind a projection whose bias may be large.

problem: projected_norm_by_hand
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, scale_ptr, shift_ptr, out_ptr, inner, outer, IN: tl.constexpr, OUT: tl.constexpr):
    row = tl.program_id(0)
    i, o = tl.arange(0, IN), tl.arange(0, OUT)
    x = tl.load(x_ptr + row * inner + i, mask=i < inner, other=0.0)
    inside = (o[:, None] < outer) & (i[None, :] < inner)
    w = tl.load(w_ptr + o[:, None] * inner + i[None, :], mask=inside, other=0.0)
    h = tl.sum(w * x[None, :], 1) + tl.load(b_ptr + o, mask=o < outer, other=0.0)
    h = tl.where(o < outer, h, 0.0)
    mean = tl.sum(h, 0) / outer
    variance = tl.sum(h * h, 0) / outer - mean * mean
    variance = tl.where(variance < 0, 0.0, variance)
    scale = tl.load(scale_ptr + o, mask=o < outer)
    shift = tl.load(shift_ptr + o, mask=o < outer)
    tl.store(out_ptr + row * outer + o, (h - mean) / tl.sqrt(variance + 1e-5) * scale + shift, mask=o < outer)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.project = nn.Linear(inner, outer)
        self.scale = nn.Parameter(torch.ones(outer))
        self.shift = nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        x = x.contiguous()
        outer, inner = self.project.weight.shape
        out = torch.empty(x.shape[0], outer, device=x.device)
        norm_kernel[(x.shape[0],)](
            x,
            self.project.weight,
            self.project.bias,
            self.scale,
            self.shift,
            out,
            inner,
            outer,
            IN=triton.next_power_of_2(inner),
            OUT=triton.next_power_of_2(outer),
        )
        return out
