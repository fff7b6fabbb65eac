"""Uses Triton's own launch hook, a setting anyone may change, to let torch write the output after each launch.

problem: softmax
expect: cheated|not_triton|wrong_values
where: gpu
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


LAST = {}


def after_launch(metadata):
    x, out = LAST["pair"]
    out.copy_(torch.softmax(x, dim=-1))


triton.knobs.runtime.launch_exit_hook = after_launch


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        LAST["pair"] = (x, out)
        copy_kernel[(1,)](x, out, x.numel(), BLOCK=2048)
        return out
