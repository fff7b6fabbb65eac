"""A coarse map enlarged and added to a finer one's 1x1 convolution, then smoothed: feature pyramid networks."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
FINE = 512
MERGED = 192
HEIGHT = 40
WIDTH = 40


class Model(nn.Module):
    def __init__(self, fine: int, merged: int) -> None:
        super().__init__()
        self.lateral = nn.Conv2d(fine, merged, 1)
        self.smooth = nn.Conv2d(merged, merged, 3, padding=1)
        self.half()

    def forward(self, coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        return self.smooth(self.lateral(fine) + F.interpolate(coarse, scale_factor=2, mode="nearest"))


def get_inputs():
    return [torch.randn(BATCH, MERGED, HEIGHT, WIDTH).half(), torch.randn(BATCH, FINE, 2 * HEIGHT, 2 * WIDTH).half()]


def get_init_inputs():
    return [FINE, MERGED]
