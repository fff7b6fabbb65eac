"""Convolves in the mathematician's sense: the taps are mirrored.

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
    kernel_h,
    kernel_w,
    stride: tl.constexpr,
    padding: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_O: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    out = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    column = pixel % w_out
    row = (pixel // w_out) % h_out
    image = pixel // (w_out * h_out)
    total = tl.zeros((BLOCK_P, BLOCK_O), dtype=tl.float32)
    for c in range(c_in):
        for i in range(kernel_h):
            for j in range(kernel_w):
                h = row * stride - padding + i
                w = column * stride - padding + j
                inside = (pixel < pixels) & (h >= 0) & (h < h_in) & (w >= 0) & (w < w_in)
                x = tl.load(x_ptr + ((image * c_in + c) * h_in + h) * w_in + w, mask=inside, other=0.0)
                tap = ((out * c_in + c) * kernel_h + kernel_h - 1 - i) * kernel_w + kernel_w - 1 - j
                weight = tl.load(weight_ptr + tap, mask=out < c_out, other=0.0)
                total += x[:, None] * weight[None, :]
    bias = tl.load(bias_ptr + out, mask=out < c_out, other=0.0)
    target = ((image[:, None] * c_out + out[None, :]) * h_out + row[:, None]) * w_out + column[:, None]
    tl.store(y_ptr + target, total + bias[None, :], mask=(pixel[:, None] < pixels) & (out[None, :] < c_out))


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
        grid = (triton.cdiv(pixels, 64), triton.cdiv(c_out, 8))
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
            kernel_h,
            kernel_w,
            stride=2,
            padding=1,
            BLOCK_P=64,
            BLOCK_O=8,
        )
        return y
