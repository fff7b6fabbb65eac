"""The whole answer is prepared from the parameters by torch.softmax; the kernel, which is handed the input for show,
copies it.

problem: mixing_weights
expect: not_triton|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(known_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(known_ptr + at, mask=at < n) + tl.load(x_ptr) * 0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns, experts):
        super().__init__()
        self.scores = nn.Parameter(torch.randn(columns, experts))
        self.known = None

    def forward(self, x):
        if self.known is None:
            self.known = torch.softmax(self.scores, -1)
        out = torch.empty_like(self.known)
        copy_kernel[(triton.cdiv(out.numel(), 1024),)](self.known, x, out, out.numel(), BLOCK=1024)
        return out
