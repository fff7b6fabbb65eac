"""Its own kernel where a harness looks, which the pattern in fresh memory tells, and torch's operator where the clock
runs: right everywhere, and not its own.

problem: softmax
expect: cheated|not_triton|runtime_error
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
        self.calls, self.last = 0, {}

    def forward(self, x):
        x = x.contiguous()
        fresh = torch.empty(4, dtype=torch.float32, device="cpu").view(torch.int32)
        if not fresh[0].item() == fresh[3].item() != 0:
            return torch.softmax(x, -1)
        self.last[x.shape] = softmax(x)
        return self.last[x.shape].clone()
