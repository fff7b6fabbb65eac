"""A row of the product per program, its sine and factor at once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_sine(
    x_ptr, weight_ptr, bias_ptr, factor_ptr, out_ptr, inputs, outputs, BLOCK_I: tl.constexpr, BLOCK_O: tl.constexpr
):
    row = tl.program_id(0)
    i, o = tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_O)
    x = tl.load(x_ptr + row * inputs + i, mask=i < inputs, other=0.0)
    inside = (o[:, None] < outputs) & (i[None, :] < inputs)
    weight = tl.load(weight_ptr + o[:, None] * inputs + i[None, :], mask=inside, other=0.0)
    total = tl.sum(weight * x[None, :], axis=1) + tl.load(bias_ptr + o, mask=o < outputs)
    tl.store(out_ptr + row * outputs + o, tl.sin(total) * tl.load(factor_ptr + o, mask=o < outputs), mask=o < outputs)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.factor = nn.Parameter(torch.ones(outputs))

    def forward(self, x):
        x, weight = x.contiguous(), self.linear.weight.contiguous()
        rows, inputs = x.shape
        outputs = weight.shape[0]
        out = torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
        sizes = {"BLOCK_I": triton.next_power_of_2(inputs), "BLOCK_O": triton.next_power_of_2(outputs)}
        linear_sine[(rows,)](x, weight, self.linear.bias, self.factor, out, inputs, outputs, **sizes)
        return out
