"""torch gathers every element into its new place, which moves data as any copy does; a kernel copies the result.

problem: transposed
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
        n, m = x.shape
        at = (torch.arange(m, device=x.device)[:, None] + torch.arange(n, device=x.device)[None] * m).reshape(-1)
        return triton_copy(torch.take(x, at).reshape(m, n))
