"""x + sin(a x)^2 / b with a and b per channel: the periodic activation of BigVGAN-like vocoders."""

import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 96
STEPS = 16384


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_frequency = nn.Parameter(torch.zeros(channels))
        self.log_magnitude = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frequency = self.log_frequency.exp()[:, None]
        magnitude = self.log_magnitude.exp()[:, None]
        return x + torch.sin(x * frequency).square() / (magnitude + 1e-4)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs():
    return [CHANNELS]
