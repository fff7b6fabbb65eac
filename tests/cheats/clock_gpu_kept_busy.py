"""After its answer it queues long useless work on a stream of its own: whoever is measured next shares the GPU with it.

problem: relu
expect: passed|cheated|timeout
where: gpu
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


@triton.jit
def spin_kernel(scrap_ptr, rounds):
    value = tl.load(scrap_ptr)
    for _ in range(rounds):
        value = value * 1.0000001 + 1e-9
    tl.store(scrap_ptr, value)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = None

    def forward(self, x):
        out = triton_relu(x)
        if self.side is None:
            self.side = torch.cuda.Stream(device=x.device)
            self.scrap = torch.zeros(1, device=x.device)
        with torch.cuda.stream(self.side):
            spin_kernel[(256,)](self.scrap, 20_000_000)
        return out
