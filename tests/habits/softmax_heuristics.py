"""Block and warps come from triton.heuristics, with functions that look at the arguments.

problem: row_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics(
    values={
        "BLOCK": lambda args: triton.next_power_of_2(args["n_cols"]),
        "num_warps": lambda args: 8 if args["n_cols"] > 2048 else 4,
        "EVEN": lambda args: args["n_cols"] == triton.next_power_of_2(args["n_cols"]),
    }
)
@triton.jit
def softmax_kernel(x_ptr, y_ptr, stride, n_cols, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + row * stride + cols)
    else:
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=float("-inf"))
    y = tl.softmax(x)
    if EVEN:
        tl.store(y_ptr + row * n_cols + cols, y)
    else:
        tl.store(y_ptr + row * n_cols + cols, y, mask=cols < n_cols)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1])
        return y
