"""Pointers, sizes and strides are handed over in tuples within tuples.

problem: row_moments
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_of(x, mask, N):
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    return mean, tl.sum(centred * centred, axis=0) / N


@triton.jit
def moments_kernel(tensors, sizes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    N = sizes[0]
    stride = sizes[1][0]
    c = tl.arange(0, BLOCK)
    x = tl.load(tensors[0] + row * stride + c, mask=c < N, other=0.0)
    found = moments_of(x, c < N, N)
    for k in tl.static_range(2):
        tl.store(tensors[1][k] + row, found[k])


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        mean, var = torch.empty((2, x.shape[0]), dtype=x.dtype, device=x.device).unbind(0)
        mean, var = mean.clone(), var.clone()
        moments_kernel[(x.shape[0],)](
            (x, (mean, var)), (x.shape[1], x.stride()), BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return {"mean": mean, "var": var}
