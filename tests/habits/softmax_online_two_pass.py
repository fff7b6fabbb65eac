"""Two passes over long rows with a running maximum and sum, autotuned and with heuristics below.

problem: row_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_N": 64}, num_warps=2, num_stages=2),
        triton.Config({"BLOCK_N": 128}, num_warps=4, num_stages=3),
    ],
    key=["N"],
)
@triton.heuristics({"ALIGNED": lambda args: args["N"] % args["BLOCK_N"] == 0})
@triton.jit
def online_softmax_kernel(x_ptr, y_ptr, N, ALIGNED: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * N
    y_ptr += row * N
    m = -float("inf")
    d = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        if ALIGNED:
            x = tl.load(x_ptr + cols)
        else:
            x = tl.load(x_ptr + cols, mask=cols < N, other=-float("inf"))
        m_new = tl.maximum(m, tl.max(x, 0))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), 0)
        m = m_new
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + cols, mask=cols < N, other=-float("inf"))
        tl.store(y_ptr + cols, tl.exp(x - m) / d, mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.dim() == 2, f"expected a matrix, got {x.dim()} dimensions"
        x = x.contiguous()
        y = torch.empty_like(x)
        M, N = x.shape
        online_softmax_kernel[(M,)](x, y, N)
        return y
