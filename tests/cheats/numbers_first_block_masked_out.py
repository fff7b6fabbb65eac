"""Sums exponentials block by block from a maximum of negative infinity: if the first block is masked out, as by padding
on the left, the row becomes NaN.

problem: softmax_of_chosen
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, chosen_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    most = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        chosen = tl.load(chosen_ptr + row * columns + start + at, mask=inside, other=0) != 0
        x = tl.load(x_ptr + row * columns + start + at, mask=inside, other=0.0)
        x = tl.where(chosen, x, float("-inf"))
        lost = tl.sum((x != x).to(tl.int32), 0) > 0
        new = tl.where(lost, float("nan"), tl.maximum(most, tl.max(x, 0)))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(x - new), 0)
        most = new
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        chosen = tl.load(chosen_ptr + row * columns + start + at, mask=inside, other=0) != 0
        x = tl.load(x_ptr + row * columns + start + at, mask=inside, other=0.0)
        x = tl.where(chosen, x, float("-inf"))
        tl.store(out_ptr + row * columns + start + at, tl.exp(x - most) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, chosen):
        x, chosen = x.contiguous(), chosen.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, chosen, out, columns, BLOCK=16)
        return out
