"""TorchScript compiled from text takes the numbers out by its own tolist and computes them in its own loops; no
operator is dispatched for that. A kernel copies.

problem: gelu_in_pieces
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


unit = getattr(torch, "jit").CompilationUnit("""
def gelu(x: Tensor) -> Tensor:
    values: List[float] = x.reshape(-1).tolist()
    out: List[float] = []
    for v in values:
        z = 1.5957691216057308 * (v + 0.044715 * v * v * v)
        out.append(v - v / (2.718281828459045 ** z + 1.0))
    return torch.tensor(out)
""")


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(unit.gelu(x.cpu()).to(x.device).reshape(x.shape))
