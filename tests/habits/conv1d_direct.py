"""A direct convolution: a program per image and output channel, loops over input channels and unrolled taps.

problem: conv1d_layer
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, C_IN, C_OUT, L_IN, L_OUT, PADDING, KERNEL: tl.constexpr, BLOCK_L: tl.constexpr
):
    n = tl.program_id(0)
    co = tl.program_id(1)
    lo = tl.program_id(2) * BLOCK_L + tl.arange(0, BLOCK_L)
    acc = tl.zeros((BLOCK_L,), dtype=tl.float32) + tl.load(b_ptr + co)
    for ci in range(C_IN):
        for k in tl.static_range(KERNEL):
            li = lo - PADDING + k
            x = tl.load(x_ptr + (n * C_IN + ci) * L_IN + li, mask=(li >= 0) & (li < L_IN), other=0.0)
            acc += x * tl.load(w_ptr + (co * C_IN + ci) * KERNEL + k)
    tl.store(y_ptr + (n * C_OUT + co) * L_OUT + lo, acc, mask=lo < L_OUT)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        x = x.contiguous()
        (kernel,), (padding,) = self.conv.kernel_size, self.conv.padding
        N, C_IN, L_IN = x.shape
        C_OUT = self.conv.out_channels
        L_OUT = L_IN + 2 * padding - kernel + 1
        y = torch.empty(N, C_OUT, L_OUT, device=x.device, dtype=x.dtype)
        conv1d_kernel[(N, C_OUT, triton.cdiv(L_OUT, 64))](
            x, self.conv.weight, self.conv.bias, y, C_IN, C_OUT, L_IN, L_OUT, padding, KERNEL=kernel, BLOCK_L=64
        )
        return y
