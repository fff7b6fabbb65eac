"""Variance of a weight's row as mean of squares less square of the mean: wrong for weights near one.

problem: standardised_weight
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def project_kernel(x_ptr, w_ptr, out_ptr, rows, inner, outer, ROWS: tl.constexpr, IN: tl.constexpr):
    o = tl.program_id(0)
    r, i = tl.arange(0, ROWS), tl.arange(0, IN)
    w = tl.load(w_ptr + o * inner + i, mask=i < inner, other=0.0)
    mean = tl.sum(w, 0) / inner
    variance = tl.sum(w * w, 0) / inner - mean * mean
    variance = tl.where(variance < 0, 0.0, variance)
    w = tl.where(i < inner, (w - mean) / tl.sqrt(variance + 1e-8), 0.0)
    inside = (r[:, None] < rows) & (i[None, :] < inner)
    x = tl.load(x_ptr + r[:, None] * inner + i[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + r * outer + o, tl.sum(x * w[None, :], 1), mask=r < rows)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        x = x.contiguous()
        outer, inner = self.weight.shape
        rows = x.shape[0]
        out = torch.empty(rows, outer, device=x.device)
        project_kernel[(outer,)](
            x, self.weight, out, rows, inner, outer, ROWS=triton.next_power_of_2(rows), IN=triton.next_power_of_2(inner)
        )
        return out
