"""Sends a kernel with thirty loops in one another, which Python parses and does not compile: it must be this file's
failure.

problem: relu
expect: compile_error|runtime_error|cheated|not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

import sys

kernels = sys.modules["triton_agent.tools.kernels.kernel"]
to_json = kernels.function_to_json


def forged(function):
    told = to_json(function)
    head, body = told["source"].split(":\n", 1)
    loops = "".join("    " * (depth + 1) + f"for i{depth} in range(1):\n" for depth in range(30))
    deep = "".join("    " * 30 + line + "\n" for line in body.splitlines())
    return {**told, "source": head + ":\n" + loops + deep}


kernels.function_to_json = forged


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
