"""Lets torch's benchmark timer execute a string for it: torch's file compiles it, with all builtins, not this one.
Where Python comes without distutils, it cannot be imported.

problem: softmax
expect: cheated|not_triton|runtime_error
where: both
needs: torch.utils.benchmark
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.benchmark import Timer


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        box = {}
        statement = "import os; box['pid'] = os.getpid(); box['answer'] = torch.softmax(x, dim=-1)"
        Timer(statement, globals={"torch": torch, "x": x, "box": box}).timeit(1)
        return triton_copy(box["answer"])
