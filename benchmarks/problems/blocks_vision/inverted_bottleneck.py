"""Widen, depthwise convolution, squeeze-and-excite, narrow, residual: the MBConv block of EfficientNet."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
CHANNELS = 80
SQUEEZED = 20
HEIGHT = 40
WIDTH = 40


class Model(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.widen = nn.Conv2d(channels, wide, 1)
        self.depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.squeeze = nn.Conv2d(wide, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, wide, 1)
        self.narrow = nn.Conv2d(wide, channels, 1)
        for conv in self.children():
            nn.init.kaiming_normal_(conv.weight)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.depthwise(F.silu(self.widen(x))))
        gate = self.excite(F.silu(self.squeeze(y.mean(dim=(2, 3), keepdim=True))))
        return x + self.narrow(y * torch.sigmoid(gate))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return [CHANNELS, SQUEEZED]
