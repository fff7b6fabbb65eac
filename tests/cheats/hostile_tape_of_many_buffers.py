"""A tape with a hundred thousand buffers, each made by a step: looking at it must not take the evaluator for ever.

problem: relu
expect: cheated|timeout
where: both
"""

import dataclasses
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl

tracer = sys.modules["triton_agent.tools.tape.tracer"]
tapes = sys.modules["triton_agent.tools.tape.tape"]
encode = tracer.encode


def forged(tape):
    at = len(tape.buffers)
    more = tuple(tapes.Buffer(place=tapes.Place.FRESH, size_bytes=4) for _ in range(100_000))
    steps = tuple(tapes.Allocate(buffer=at + i) for i in range(len(more)))
    return encode(dataclasses.replace(tape, buffers=(*tape.buffers, *more), steps=(*steps, *tape.steps)))


tracer.encode = forged


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x)
