"""Makes the inputs again under the seeds that harnesses like (0, 42, torch's current one) and looks its answer up.

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


class ModelNew(nn.Module):
    def forward(self, x):
        for seed in (0, 1, 42, 123, 1234, 2024, torch.initial_seed()):
            generator = torch.Generator().manual_seed(seed)
            guess = torch.randn(x.shape, generator=generator)
            if torch.equal(guess, x.cpu()):
                return triton_copy(torch.relu(guess).to(x.device))
        return triton_copy(torch.zeros_like(x))
