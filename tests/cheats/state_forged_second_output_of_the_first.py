"""Writes onto the tape that both outputs lie in the memory of the first.

problem: two_outputs
expect: wrong_values|cheated|wrong_shape|runtime_error
where: both
"""

import dataclasses
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl

tracer = sys.modules["triton_agent.tools.tape.tracer"]
encode = tracer.encode


def forged(tape):
    first, second = tape.outputs
    second = dataclasses.replace(second, buffer=first.buffer, strides=(first.strides[0],))
    return encode(dataclasses.replace(tape, outputs=(first, second)))


tracer.encode = forged


@triton.jit
def both_kernel(x_ptr, out_ptr, most_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)
    tl.store(most_ptr + row, tl.max(x))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out, most = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
        both_kernel[(x.shape[0],)](x, out, most, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out, most
