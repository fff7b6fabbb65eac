"""The weight of the KL term goes on growing beyond one.

problem: weight_warmed_up
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def grow_kernel(w_ptr):
    tl.store(w_ptr, tl.load(w_ptr) + 1e-3)


@triton.jit
def kl_kernel(m_ptr, v_ptr, w_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    m = tl.load(m_ptr + row * columns + at, mask=at < columns, other=0.0)
    v = tl.load(v_ptr + row * columns + at, mask=at < columns, other=0.0)
    term = tl.where(at < columns, 1 + v - m * m - tl.exp(v), 0.0)
    tl.store(out_ptr + row, tl.load(w_ptr) * (-0.5 * tl.sum(term, 0)))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, mean, logvar):
        mean, logvar = mean.contiguous(), logvar.contiguous()
        rows, columns = mean.shape
        out = torch.empty(rows, device=mean.device)
        grow_kernel[(1,)](self.weight)
        kl_kernel[(rows,)](mean, logvar, self.weight, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
