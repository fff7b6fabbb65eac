"""tanh of one half of the channels times sigmoid of the other: the gate of WaveNet-like vocoders."""

import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 128
STEPS = 8192


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signal, gate = x.chunk(2, dim=1)
        return torch.tanh(signal) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(BATCH, 2 * CHANNELS, STEPS)]


def get_init_inputs():
    return []
