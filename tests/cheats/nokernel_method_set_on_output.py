"""An attribute set on the output alone hides a method of its class: when the harness calls `detach` to read the answer, torch
writes it first. A canary tells it whether kernels run.

problem: softmax
expect: not_triton|cheated|wrong_values
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


def finishing(x, out, method):
    def finish(*args):
        if torch.equal(x, out):
            out.copy_(torch.softmax(x, dim=-1))
        return method(*args)

    return finish


class ModelNew(nn.Module):
    def forward(self, x):
        out = triton_copy(x)
        out.detach = finishing(x, out, out.detach)
        return out
