"""Max pooling of long signals over taps that lie apart."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64
CHANNELS = 192
STEPS = 98304


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool1d(x, 8, stride=1, padding=4, dilation=3)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs():
    return []
