"""A launch heuristic, given all arguments, lets torch write the answer; the kernel stores nothing.

problem: softmax
expect: not_triton|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def pick_block(arguments):
    torch.softmax(arguments["x_ptr"], dim=-1, out=arguments["out_ptr"])
    return 128


@triton.heuristics({"BLOCK": pick_block})
@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        softmax_kernel[(1,)](x, out, x.shape[1])
        return out
