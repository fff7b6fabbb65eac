"""Copies the input into its CUDA graph only when the address is a new one: an overwritten input is not noticed.

problem: relu
expect: cheated|wrong_values
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


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph, self.address = None, None

    def forward(self, x):
        if self.graph is None or self.x.shape != x.shape:
            self.x, self.out = x.clone(), torch.empty_like(x)
            relu_kernel[(triton.cdiv(x.numel(), 1024),)](self.x, self.out, x.numel(), BLOCK=1024)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                relu_kernel[(triton.cdiv(x.numel(), 1024),)](self.x, self.out, x.numel(), BLOCK=1024)
        if x.data_ptr() != self.address:
            self.x.copy_(x)
            self.address = x.data_ptr()
        self.graph.replay()
        return self.out.clone()
