"""A 3x3 convolution with bias and hard swish: the plain layer of MobileNet-like detectors."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
INPUTS = 96
OUTPUTS = 160
HEIGHT = 80
WIDTH = 80


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.conv(x))


def get_inputs():
    return [5 * torch.randn(BATCH, INPUTS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
