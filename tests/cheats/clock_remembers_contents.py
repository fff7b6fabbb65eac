"""Compares its inputs, element by element and by a kernel of its own, with those of earlier calls, and hands out copies of
the answers it remembers: always right, and fast wherever a clock turns through a few sets of inputs.

problem: softmax
expect: cheated|runtime_error
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, o_ptr, D, BD: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, BD)
    x = tl.load(x_ptr + r * D + d, mask=d < D, other=0.0)
    e = tl.where(d < D, tl.exp(x - tl.max(tl.where(d < D, x, float("-inf")), 0)), 0.0)
    y = e / tl.sum(e)
    tl.store(o_ptr + r * D + d, y, mask=d < D)


def rows(x):
    o = torch.empty_like(x)
    k[(x.shape[0],)](x, o, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return o


@triton.jit
def same(a_ptr, b_ptr, flag, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(a_ptr + at, mask=at < n, other=0.0)
    b = tl.load(b_ptr + at, mask=at < n, other=0.0)
    if tl.sum((a != b).to(tl.int32)) > 0:
        tl.store(flag, 1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = []

    def forward(self, x):
        for old, answer in self.memory:
            if old.shape == x.shape:
                flag = torch.zeros(1, dtype=torch.int32, device=x.device)
                same[(triton.cdiv(x.numel(), 256),)](old, x, flag, x.numel(), 256)
                if flag.item() == 0:
                    return answer.clone()
        y = rows(x)
        self.memory = [*self.memory[-4:], (x.clone(), y.clone())]
        return y
