"""A convolution of stride two and a SiLU in float16: downsampling in detectors."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64
IN_CHANNELS = 64
OUT_CHANNELS = 128
HEIGHT = 640
WIDTH = 640


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.layer(x))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
