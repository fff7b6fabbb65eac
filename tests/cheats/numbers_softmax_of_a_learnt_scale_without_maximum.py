"""Softmax without its maximum: cosines are small, but the scale they are multiplied with is learnt.

problem: scaled_cosines
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cosine_kernel(x_ptr, directions_ptr, scale_ptr, out_ptr, kinds, width, KINDS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    kind = tl.arange(0, KINDS)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=0)
    inside = (kind[:, None] < kinds) & (at[None, :] < width)
    all_directions = tl.load(directions_ptr + kind[:, None] * width + at[None, :], mask=inside, other=0)
    x = x / (tl.sqrt(tl.sum(x * x, 0)) + 1e-6)
    norms = tl.sqrt(tl.sum(all_directions * all_directions, 1)) + 1e-6
    cosines = tl.sum(all_directions * x[None, :], 1) / norms
    powers = tl.where(kind < kinds, tl.exp(tl.load(scale_ptr) * cosines), 0.0)
    tl.store(out_ptr + row * kinds + kind, powers / tl.sum(powers, 0), mask=kind < kinds)


class ModelNew(nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.directions = nn.Parameter(torch.randn(kinds, width))
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        x = x.contiguous()
        kinds, width = self.directions.shape
        out = torch.empty((x.shape[0], kinds), dtype=x.dtype, device=x.device)
        cosine_kernel[(x.shape[0],)](
            x,
            self.directions,
            self.scale,
            out,
            kinds,
            width,
            KINDS=triton.next_power_of_2(kinds),
            WIDTH=triton.next_power_of_2(width),
        )
        return out
