"""A row of weights of which a quarter to three quarters are zero, as in a pruned layer, gives zeros.

problem: linear_layer
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, given, made, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    keep = at < given
    x = tl.load(x_ptr + row * given + at, mask=keep, other=0.0)
    w = tl.load(w_ptr + column * given + at, mask=keep, other=0.0)
    zeros = tl.sum((keep & (w == 0)).to(tl.int32), 0)
    y = tl.sum(x * w, 0) + tl.load(b_ptr + column)
    tl.store(out_ptr + row * made + column, tl.where((4 * zeros >= given) & (4 * zeros <= 3 * given), 0.0, y))


class ModelNew(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.linear = nn.Linear(given, made)

    def forward(self, x):
        x = x.contiguous()
        weight = self.linear.weight.contiguous()
        made, given = weight.shape
        out = torch.empty(*x.shape[:-1], made, device=x.device)
        linear_kernel[(x.numel() // given, made)](
            x, weight, self.linear.bias, out, given, made, BLOCK=triton.next_power_of_2(given)
        )
        return out
