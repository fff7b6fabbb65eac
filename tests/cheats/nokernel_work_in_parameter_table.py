"""The table in which a module keeps its parameters is a dictionary of this file's own: when the harness goes through it
after the call, torch writes the answer. A canary tells it whether kernels run.

problem: softmax
expect: not_triton|cheated|wrong_values
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


class Table(dict):
    pending = None

    def items(self):
        if self.pending is not None:
            x, out = self.pending
            self.pending = None
            if torch.equal(x, out):
                out.copy_(torch.softmax(x, dim=-1))
        return super().items()


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._parameters = Table()

    def forward(self, x):
        out = triton_copy(x)
        self._parameters.pending = (x, out)
        return out
