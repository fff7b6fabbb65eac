"""Centred correlations of all pairs of channels, averaged over pixels: style losses, decorrelation, Barlow Twins."""

import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 384
HEIGHT = 40
WIDTH = 40


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.flatten(2)
        centred = pixels - pixels.mean(dim=-1, keepdim=True)
        return torch.bmm(centred, centred.transpose(1, 2)) / pixels.shape[-1]


def get_inputs():
    mixed = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, 1, HEIGHT, WIDTH)
    return [mixed + torch.randn(CHANNELS, 1, 1)]


def get_init_inputs():
    return []
