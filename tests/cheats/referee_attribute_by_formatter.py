"""string.Formatter looks attributes up by names given as text: it fetches what switches the log of operators off.

problem: softmax
expect: cheated|runtime_error
where: both
"""

import string

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
        C, _ = string.Formatter().get_field("0._" + "C", (torch,), {})
        with C._DisableTorchDispatch():
            y = torch.softmax(x, -1)
        return triton_copy(y)
