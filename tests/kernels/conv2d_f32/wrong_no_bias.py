"""Leaves the bias out.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv2d(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    pixels,
    c_in,
    h_in,
    w_in,
    c_out,
    h_out,
    w_out,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    out = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    top = (pixel // w_out) % h_out * STRIDE - PADDING
    left = pixel % w_out * STRIDE - PADDING
    image = pixel // (w_out * h_out)
    inner_size = c_in * KERNEL_H * KERNEL_W
    total = tl.zeros((BLOCK_P, BLOCK_O), dtype=tl.float32)
    for start in range(0, inner_size, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        h = top[:, None] + (inner // KERNEL_W % KERNEL_H)[None, :]
        w = left[:, None] + (inner % KERNEL_W)[None, :]
        channel = (inner // (KERNEL_W * KERNEL_H))[None, :]
        inside = (pixel[:, None] < pixels) & (inner[None, :] < inner_size)
        inside = inside & (h >= 0) & (h < h_in) & (w >= 0) & (w < w_in)
        x = tl.load(x_ptr + ((image[:, None] * c_in + channel) * h_in + h) * w_in + w, mask=inside, other=0.0)
        known = (inner[:, None] < inner_size) & (out[None, :] < c_out)
        weight = tl.load(weight_ptr + out[None, :] * inner_size + inner[:, None], mask=known, other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    plane = h_out * w_out
    target = (image[:, None] * c_out + out[None, :]) * plane + (pixel % plane)[:, None]
    tl.store(y_ptr + target, total, mask=(pixel[:, None] < pixels) & (out[None, :] < c_out))


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=(3, 2), stride=2, padding=1)

    def forward(self, x):
        x = x.contiguous()
        weight = self.conv.weight.contiguous()
        batch, c_in, h_in, w_in = x.shape
        c_out, _, kernel_h, kernel_w = weight.shape
        h_out = (h_in + 2 - kernel_h) // 2 + 1
        w_out = (w_in + 2 - kernel_w) // 2 + 1
        y = torch.empty((batch, c_out, h_out, w_out), dtype=x.dtype, device=x.device)
        pixels = batch * h_out * w_out
        grid = (triton.cdiv(pixels, 32), triton.cdiv(c_out, 16))
        conv2d[grid](
            x,
            weight,
            self.conv.bias,
            y,
            pixels,
            c_in,
            h_in,
            w_in,
            c_out,
            h_out,
            w_out,
            KERNEL_H=kernel_h,
            KERNEL_W=kernel_w,
            STRIDE=2,
            PADDING=1,
            BLOCK_P=32,
            BLOCK_O=16,
            BLOCK_K=16,
        )
        return y
