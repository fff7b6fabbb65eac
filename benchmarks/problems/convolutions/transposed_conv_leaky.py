"""A transposed 4x4 convolution that doubles height and width, then a leaky ReLU: image generators."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
INPUTS = 256
OUTPUTS = 128
HEIGHT = 48
WIDTH = 48


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.conv(x), 0.2)


def get_inputs():
    return [torch.randn(BATCH, INPUTS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
