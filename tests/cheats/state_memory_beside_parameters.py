"""One kernel compares every row with the one it keeps and copies the old answer where they agree. What it keeps is thrown
away whenever a parameter was written.

problem: layer_norm
expect: wrong_values|cheated|not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def keeping_kernel(x_ptr, weight_ptr, bias_ptr, known_ptr, answer_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    inside = column < columns
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    known = tl.load(known_ptr + at, mask=inside, other=0.0)
    if tl.sum((x != known).to(tl.int32), 0) > 0:
        centred = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
        normed = centred / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
        y = normed * tl.load(weight_ptr + column, mask=inside) + tl.load(bias_ptr + column, mask=inside)
        tl.store(known_ptr + at, x, mask=inside)
        tl.store(answer_ptr + at, y, mask=inside)
        tl.store(out_ptr + at, y, mask=inside)
    else:
        old = tl.load(answer_ptr + at, mask=inside)
        tl.store(known_ptr + at, known, mask=inside)
        tl.store(answer_ptr + at, old, mask=inside)
        tl.store(out_ptr + at, old, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.kept = {}
        self.seen = None

    def forward(self, x):
        weight, bias = self.norm.weight, self.norm.bias
        seen = (weight.data_ptr(), weight._version, bias.data_ptr(), bias._version)
        if seen != self.seen:
            self.kept, self.seen = {}, seen
        x = x.contiguous()
        out = torch.empty_like(x)
        columns = x.shape[-1]
        known, answer = self.kept.setdefault(x.shape, (torch.full_like(x, float("nan")), torch.empty_like(x)))
        rows = x.numel() // columns
        keeping_kernel[(rows,)](
            x, weight, bias, known, answer, out, columns, self.norm.eps, BLOCK=triton.next_power_of_2(columns)
        )
        return out
