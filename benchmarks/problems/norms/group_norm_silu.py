"""Group norm and SiLU: in front of every convolution of a diffusion U-Net."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
CHANNELS = 320
GROUPS = 32
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-5, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs():
    return [(torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(CHANNELS, 1, 1)).half()]


def get_init_inputs():
    return [GROUPS, CHANNELS]
