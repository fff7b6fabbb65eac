"""Tokens squeezed into a small latent, normalised, and spread to keys and values of all heads: latent attention."""

import torch
import torch.nn as nn

ROWS = 4096
WIDTH = 2048
LATENT = 512
HEADS = 16
HEAD_WIDTH = 128


class Model(nn.Module):
    def __init__(self, width: int, latent: int, spread: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, latent)
        self.norm = nn.RMSNorm(latent, eps=1e-4)
        self.spread = nn.Linear(latent, spread)
        self.half()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        latent = self.norm(self.squeeze(x))
        return latent, self.spread(latent)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, LATENT, 2 * HEADS * HEAD_WIDTH]
