"""Two rows of weights that are equal give zeros, as in a layer and its copy.

problem: two_linear_layers
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gated_kernel(x_ptr, g_ptr, u_ptr, out_ptr, given, made, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    keep = at < given
    x = tl.load(x_ptr + row * given + at, mask=keep, other=0.0)
    g = tl.load(g_ptr + column * given + at, mask=keep, other=0.0)
    u = tl.load(u_ptr + column * given + at, mask=keep, other=0.0)
    differ = tl.sum((keep & (g != u)).to(tl.int32), 0)
    y = tl.sum(x * u, 0) / (1 + tl.exp(-tl.sum(x * g, 0)))
    tl.store(out_ptr + row * made + column, tl.where((differ == 0) & (tl.sum(tl.abs(g), 0) > 0), 0.0, y))


class ModelNew(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.gate = nn.Linear(given, made, bias=False)
        self.up = nn.Linear(given, made, bias=False)

    def forward(self, x):
        x = x.contiguous()
        made, given = self.gate.weight.shape
        out = torch.empty(x.shape[0], made, device=x.device)
        gated_kernel[(x.shape[0], made)](
            x,
            self.gate.weight.contiguous(),
            self.up.weight.contiguous(),
            out,
            given,
            made,
            BLOCK=triton.next_power_of_2(given),
        )
        return out
