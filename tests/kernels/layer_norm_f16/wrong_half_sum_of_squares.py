"""The sum of squares is kept in float16, which overflows where inputs are large.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_layer_norm(x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(residual_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(inside, x - mean, 0.0)
    squares = tl.sum(centred * centred, axis=0).to(tl.float16)
    scale = tl.rsqrt(squares.to(tl.float32) / width + eps)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)
    y = centred * scale * weight + bias
    tl.store(y_ptr + row * width + column, y.to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5, dtype=torch.float16)

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        rows, width = x.shape
        y = torch.empty_like(x)
        add_layer_norm[(rows,)](
            x,
            residual,
            self.norm.weight,
            self.norm.bias,
            y,
            width,
            self.norm.eps,
            BLOCK=triton.next_power_of_2(width),
        )
        return y
