"""Honest for the first forty calls: more than any check makes and fewer than a benchmark does.

problem: softmax
expect: passed|cheated|wrong_values|not_triton
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
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


def triton_softmax(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


CALLS = iter(range(10**9))


class ModelNew(nn.Module):
    last = None

    def forward(self, x):
        if next(CALLS) < 40 or self.last.shape != x.shape:
            self.last = triton_softmax(x)
        return self.last.clone()
