"""7x7 depthwise convolution, layer norm over channels, feed-forward, layer scale, residual: ConvNeXt."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
CHANNELS = 192
HEIGHT = 48
WIDTH = 48


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-4)
        self.up = nn.Linear(channels, 4 * channels)
        self.down = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.ones(channels))
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def get_inputs():
    return [(0.5 * torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)).half()]


def get_init_inputs():
    return [CHANNELS]
