"""Three rounds of leaky ReLU and a 1d convolution, dilated 1, 3 and 5, each added back: HiFi-GAN's residual block."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 128
STEPS = 8192


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.near = nn.Conv1d(channels, channels, 7, padding=3)
        self.middle = nn.Conv1d(channels, channels, 7, padding=9, dilation=3)
        self.far = nn.Conv1d(channels, channels, 7, padding=15, dilation=5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.near(F.leaky_relu(x, 0.1))
        x = x + self.middle(F.leaky_relu(x, 0.1))
        return x + self.far(F.leaky_relu(x, 0.1))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs():
    return [CHANNELS]
