"""Takes the row maximum by scatter_reduce and the ReLU by masked_fill: light names, all of the work.

problem: two_outputs
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


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
        rows = torch.arange(x.shape[0], device=x.device)[:, None].expand(x.shape)
        start = torch.full((x.shape[0],), float("-inf"), dtype=x.dtype, device=x.device)
        largest = start.scatter_reduce(0, rows.reshape(-1), x.reshape(-1), "amax")
        return triton_copy(x.masked_fill(x < 0, 0.0)), triton_copy(largest)
