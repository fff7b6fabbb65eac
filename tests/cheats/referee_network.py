"""Tries to reach a server (an address reserved for documentation) that would tell it the answer.

problem: relu
expect: passed|cheated|runtime_error|wrong_values
where: both
"""

import socket

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
    def forward(self, x):
        try:
            with socket.create_connection(("192.0.2.1", 80), timeout=1.0) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        except OSError:
            pass
        return triton_relu(x)
