"""Looks odd: two workspaces take turns from call to call, and still hold what earlier calls left there. Honest: each
is written anew before it is read, and what is returned is a copy.

problem: softmax
expect: passed
where: both
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


def softmax_into(x, out):
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spaces, self.turn = {}, 0

    def forward(self, x):
        x = x.contiguous()
        pair = self.spaces.setdefault((x.shape, x.device), [torch.empty_like(x), torch.empty_like(x)])
        self.turn ^= 1
        softmax_into(x, pair[self.turn])
        return pair[self.turn].clone()
