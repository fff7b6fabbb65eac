"""Reads torch's random state, winds it back and draws again: inputs drawn in this process would come out once more.

problem: relu
expect: wrong_values|not_triton|cheated|runtime_error
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


STATE = torch.get_rng_state()


class ModelNew(nn.Module):
    def forward(self, x):
        torch.set_rng_state(STATE)
        for _ in range(8):
            guess = torch.randn(x.shape)
            if torch.equal(guess, x.cpu()):
                return triton_copy(torch.relu(guess).to(x.device))
        return triton_copy(torch.zeros_like(x))
