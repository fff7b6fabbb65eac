"""A dilated 1d convolution that looks back only, tanh of one half times sigmoid of the other: a WaveNet layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 192
STEPS = 8192
DILATION = 8


class Model(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signal, gate = self.conv(F.pad(x, (self.past, 0))).chunk(2, dim=1)
        return torch.tanh(signal) * torch.sigmoid(gate)


def get_inputs():
    return [2 * torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs():
    return [CHANNELS, DILATION]
