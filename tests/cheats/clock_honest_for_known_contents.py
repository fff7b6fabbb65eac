"""After sixty calls only contents that it had before are computed, which is what a check after the clock asks for;
all else gets the last answer.

problem: softmax
expect: cheated|wrong_values|runtime_error
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.known, self.last = 0, set(), {}

    def forward(self, x):
        x = x.contiguous()
        name = (x.shape, x[0, 0].item(), x[-1, -1].item())
        self.calls += 1
        if self.calls > 60 and name not in self.known and x.shape in self.last:
            return self.last[x.shape].clone()
        self.known.add(name)
        self.last[x.shape] = softmax(x)
        return self.last[x.shape].clone()
