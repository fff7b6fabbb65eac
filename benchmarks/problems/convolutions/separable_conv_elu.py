"""A 5x5 convolution per channel, then a 1x1 over all channels, ELU: EEGNet, Xception and other separable networks."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
INPUTS = 128
OUTPUTS = 256
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(inputs, inputs, 5, padding=2, groups=inputs, bias=False)
        self.mix = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(self.mix(self.spread(x)))


def get_inputs():
    return [4 * torch.randn(BATCH, INPUTS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
