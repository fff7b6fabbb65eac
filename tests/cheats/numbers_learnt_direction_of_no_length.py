"""Divides by the length of learnt rows, which may be zero.

problem: cosine_scores
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def score_kernel(x_ptr, w_ptr, out_ptr, columns, classes, BLOCK: tl.constexpr, OUTS: tl.constexpr):
    row = tl.program_id(0)
    at, to = tl.arange(0, BLOCK), tl.arange(0, OUTS)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    inside = (to[:, None] < classes) & (at[None, :] < columns)
    w = tl.load(w_ptr + to[:, None] * columns + at[None, :], mask=inside, other=0.0)
    scores = tl.sum(w * x[None, :], 1) / tl.sqrt(tl.sum(w * w, 1))
    tl.store(out_ptr + row * classes + to, scores, mask=to < classes)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 32))

    def forward(self, x):
        x, w = x.contiguous(), self.weight.contiguous()
        rows, columns = x.shape
        classes = w.shape[0]
        out = torch.empty(rows, classes, device=x.device)
        sizes = dict(BLOCK=triton.next_power_of_2(columns), OUTS=triton.next_power_of_2(classes))
        score_kernel[(rows,)](x, w, out, columns, classes, **sizes)
        return out
