"""Direct 3x3 convolution: output places in a block, weights as scalars, activation at the end.

problem: conv2d_layer
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv2d_relu_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, CI, H, W, CO, KH: tl.constexpr, KW: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr
):
    nco = tl.program_id(0)
    n = nco // CO
    co = nco % CO
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    oh = p // W
    ow = p % W
    acc = tl.zeros((BLOCK,), tl.float32)
    for ci in range(CI):
        for kh in tl.static_range(KH):
            for kw in tl.static_range(KW):
                ih = oh + kh - PAD
                iw = ow + kw - PAD
                inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
                x = tl.load(x_ptr + ((n * CI + ci) * H + ih) * W + iw, mask=inside, other=0.0)
                acc += x * tl.load(w_ptr + ((co * CI + ci) * KH + kh) * KW + kw)
    acc += tl.load(b_ptr + co)
    tl.store(y_ptr + nco * H * W + p, tl.where(acc < 0, 0.0, acc), mask=p < H * W)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        x = x.contiguous()
        N, CI, H, W = x.shape
        CO = self.conv.out_channels
        y = torch.empty((N, CO, H, W), device=x.device, dtype=x.dtype)
        conv2d_relu_kernel[(N * CO, triton.cdiv(H * W, 256))](
            x, self.conv.weight, self.conv.bias, y, CI, H, W, CO, KH=3, KW=3, PAD=1, BLOCK=256
        )
        return y
