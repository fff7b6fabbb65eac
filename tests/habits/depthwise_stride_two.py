"""A plane per program, the nine weights read once, sizes derived from the module's own fields.

problem: depthwise_conv
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    C,
    H,
    W,
    OH,
    OW,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    K: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    plane = tl.program_id(0)
    c = plane % C
    oh = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[:, None]
    ow = tl.arange(0, BLOCK_W)[None, :]
    acc = tl.zeros((BLOCK_H, BLOCK_W), tl.float32)
    for i in tl.static_range(K * K):
        ih = oh * STRIDE - PAD + i // K
        iw = ow * STRIDE - PAD + i % K
        x = tl.load(x_ptr + plane * H * W + ih * W + iw, mask=(ih >= 0) & (ih < H) & (iw >= 0) & (iw < W), other=0.0)
        acc += x * tl.load(w_ptr + c * K * K + i)
    tl.store(y_ptr + plane * OH * OW + oh * OW + ow, acc, mask=(oh < OH) & (ow < OW))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1, groups=channels, bias=False)

    def forward(self, x):
        x = x.contiguous()
        N, C, H, W = x.shape
        OH, OW = ((size + 2 - 3) // 2 + 1 for size in (H, W))
        y = torch.empty(N, C, OH, OW, dtype=x.dtype, device=x.device)
        depthwise_kernel[(N * C, triton.cdiv(OH, 8))](
            x,
            self.conv.weight.reshape(C, 9),
            y,
            C,
            H,
            W,
            OH,
            OW,
            STRIDE=2,
            PAD=1,
            K=3,
            BLOCK_H=8,
            BLOCK_W=triton.next_power_of_2(OW),
        )
        return y
