"""Leaky ReLU and a transposed 1d convolution that makes eight samples of each step: upsampling in HiFi-GAN."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
INPUTS = 256
OUTPUTS = 128
STEPS = 2000


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, 16, stride=8, padding=4, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.leaky_relu(x, 0.1))


def get_inputs():
    return [(3 * torch.randn(BATCH, INPUTS, STEPS)).to(torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
