"""Other modules of torch have imported the function that tells which dispatch mode is watching; its record is emptied
before forward returns.

problem: softmax
expect: not_triton|cheated|runtime_error
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


def watching():
    others = torch.utils._debug_mode
    try:
        return others._mode._get_current_dispatch_mode()
    except AttributeError:  # one file in earlier versions of torch
        return others._get_current_dispatch_mode()


class ModelNew(nn.Module):
    def forward(self, x):
        answer = triton_copy(torch.softmax(x, dim=-1))
        watching().operators.clear()
        return answer
