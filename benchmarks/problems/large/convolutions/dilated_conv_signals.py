"""A dilated convolution of long signals: speech and audio networks."""

import torch
import torch.nn as nn

BATCH = 64
IN_CHANNELS = 64
OUT_CHANNELS = 128
STEPS = 131072


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(in_channels, out_channels, 3, padding=4, dilation=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, STEPS)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
