"""Captures a CUDA graph of torch's softmax and a copying kernel while it is constructed, where no call is watched, and
replays it by the method of the base class.

problem: softmax
expect: not_triton|cheated|runtime_error
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SHAPE = (16, 100)


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def copied(x):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.given = torch.randn(SHAPE, device="cuda")
        copied(torch.softmax(self.given, dim=-1))
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.answer = copied(torch.softmax(self.given, dim=-1))

    def forward(self, x):
        if x.shape != SHAPE:
            return copied(torch.softmax(x, dim=-1))
        self.given.copy_(x)
        super(torch.cuda.CUDAGraph, self.graph).replay()
        return self.answer.clone()
