"""Channels become pixels, twice as many each way; a mean colour is added and the range cut: super-resolution."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
HEIGHT = 360
WIDTH = 480


class Model(nn.Module):
    def __init__(self, colours: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.full((colours, 1, 1), 0.4, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (F.pixel_shuffle(x, 2) + self.mean).clamp(0, 1)


def get_inputs():
    return [(0.4 * torch.randn(BATCH, 12, HEIGHT, WIDTH)).half()]


def get_init_inputs():
    return [3]
