"""Returns a view into a buffer that it fills again at the next call, with an offset so that addresses differ.

problem: relu
expect: passed|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffer, self.turn = None, 0

    def forward(self, x):
        x, n = x.contiguous(), x.numel()
        if self.buffer is None or self.buffer.numel() < n + 64:
            self.buffer = torch.empty(n + 64, dtype=x.dtype, device=x.device)
        self.turn = (self.turn + 16) % 64
        out = self.buffer[self.turn : self.turn + n].view(x.shape)
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
