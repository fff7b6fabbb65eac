"""Group norm, SiLU and a 3x3 convolution, twice, around a 1x1 shortcut: the decoder of a latent-diffusion VAE."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
INPUTS = 256
OUTPUTS = 128
GROUPS = 32
HEIGHT = 96
WIDTH = 96


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(groups, inputs, eps=1e-4)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second_norm = nn.GroupNorm(groups, outputs, eps=1e-4)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.first_norm(x)))
        y = self.second(F.silu(self.second_norm(y)))
        return self.shortcut(x) + y


def get_inputs():
    return [torch.randn(BATCH, INPUTS, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return [INPUTS, OUTPUTS, GROUPS]
