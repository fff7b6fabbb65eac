"""Operator logs are per thread: another thread computes by torch, this one only launches the copy.

problem: softmax
expect: not_triton|cheated|runtime_error
where: both
"""

from concurrent.futures import ThreadPoolExecutor

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
        with ThreadPoolExecutor(max_workers=1) as pool:
            answer = pool.submit(torch.softmax, x, -1).result()
        return triton_copy(answer)
