"""Implicit GEMM on tensors that were brought into channels-last order, autotuned, strides for every axis.

problem: conv2d_layer
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=2, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_K": 32}, num_warps=4, num_stages=3),
    ],
    key=["N", "C", "H", "W", "OC"],
)
@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    N,
    C,
    H,
    W,
    OC,
    xn,
    xc,
    xh,
    xw,
    wo,
    wc,
    wh,
    ww,
    yn,
    yc,
    yh,
    yw,
    R: tl.constexpr,
    S: tl.constexpr,
    PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    oc = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n = m // (H * W)
    oh = (m % (H * W)) // W
    ow = m % W
    in_m = m < N * H * W
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for rs in range(R * S):
        ih = oh + rs // S - PAD
        iw = ow + rs % S - PAD
        in_image = in_m & (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
        for c0 in range(0, C, BLOCK_K):
            c = c0 + tl.arange(0, BLOCK_K)
            a = tl.load(
                x_ptr + (n * xn + ih * xh + iw * xw)[:, None] + c[None, :] * xc,
                mask=in_image[:, None] & (c[None, :] < C),
                other=0.0,
            )
            b = tl.load(
                w_ptr + oc[None, :] * wo + c[:, None] * wc + (rs // S) * wh + (rs % S) * ww,
                mask=(oc[None, :] < OC) & (c[:, None] < C),
                other=0.0,
            )
            acc = tl.dot(a, b, acc, input_precision="ieee")
    acc += tl.load(b_ptr + oc, mask=oc < OC, other=0.0)[None, :]
    acc = tl.where(acc > 0, acc, 0.0)
    tl.store(
        y_ptr + (n * yn + oh * yh + ow * yw)[:, None] + oc[None, :] * yc, acc, mask=in_m[:, None] & (oc[None, :] < OC)
    )


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        w = self.conv.weight
        N, C, H, W = x.shape
        OC, _, R, S = w.shape
        y = torch.empty((N, OC, H, W), dtype=x.dtype, device=x.device)
        grid = lambda META: (triton.cdiv(N * H * W, META["BLOCK_M"]), triton.cdiv(OC, META["BLOCK_N"]))
        conv_kernel[grid](
            x, w, self.conv.bias, y, N, C, H, W, OC, *x.stride(), *w.stride(), *y.stride(), R=R, S=S, PAD=1
        )
        return y
