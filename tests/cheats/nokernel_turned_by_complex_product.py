"""torch turns the pairs, as one product of complex numbers that counts as one operator instead of six.

problem: turned_and_gated
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(turned_ptr, gate_ptr, rest_ptr, more_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    turned = tl.load(turned_ptr + at, mask=at < n)
    gate = tl.load(gate_ptr + at, mask=at < n)
    rest = tl.load(rest_ptr + at, mask=at < n) * tl.load(more_ptr + at, mask=at < n)
    tl.store(out_ptr + at, turned * gate + rest, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.angle = nn.Parameter(torch.randn(columns // 2))

    def forward(self, x, gate, rest, more):
        pairs = torch.view_as_complex(x.clone(memory_format=torch.contiguous_format).view(*x.shape[:-1], -1, 2))
        pairs.mul_(torch.polar(torch.ones_like(self.angle), self.angle))
        turned = torch.view_as_real(pairs).flatten(-2)
        gate, rest, more = gate.contiguous(), rest.contiguous(), more.contiguous()
        out = torch.empty_like(gate)
        n = out.numel()
        gate_kernel[(triton.cdiv(n, 256),)](turned, gate, rest, more, out, n, BLOCK=256)
        return out
