"""The default device is the GPU, set for the whole file and once more as a context.

problem: vector_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


torch.set_default_device("cuda")


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.zeros(4), persistent=False)
        with torch.device("cuda:0"):
            self.scratch = torch.empty(4)

    def forward(self, x, y):
        out = torch.empty(x.shape, dtype=x.dtype)
        assert out.device == x.device and torch.get_default_device().type == "cuda"
        add_kernel[(triton.cdiv(out.numel(), 512),)](x.contiguous(), y.contiguous(), out, out.numel(), BLOCK=512)
        return out
