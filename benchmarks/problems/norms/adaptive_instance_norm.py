"""Each feature map normalised by itself, then scaled and shifted as a style says: style transfer, StyleGAN 1."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
CHANNELS = 128
HEIGHT = 96
WIDTH = 96


class Model(nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        normal = F.instance_norm(x, eps=1e-5)
        return normal * (1 + scale[:, :, None, None]) + shift[:, :, None, None]


def get_inputs():
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * torch.rand(BATCH, CHANNELS, 1, 1) + 0.5
    return [x, torch.randn(BATCH, CHANNELS), torch.randn(BATCH, CHANNELS)]


def get_init_inputs():
    return []
