"""In the interpreter a kernel is Python: this one calls a Python function that lets torch write the answer.
No GPU could compile it.

problem: relu
expect: compile_error|cheated|not_triton|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BOX = {}


def cheat(at):
    torch.clamp(BOX["x"], min=0, out=BOX["out"])


@triton.jit
def relu_kernel(out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    cheat(at)


class ModelNew(nn.Module):
    def forward(self, x):
        BOX.update(x=x, out=torch.empty_like(x))
        relu_kernel[(1,)](BOX["out"], BLOCK=16)
        return BOX["out"]
