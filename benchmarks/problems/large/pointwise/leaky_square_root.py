"""A root that keeps the sign, then an affine map per column: compressing heavy-tailed features."""

import torch
import torch.nn as nn

ROWS = 24576
WIDTH = 49152


class Model(nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return torch.sign(x) * torch.sqrt(x.abs() + 0.01) * scale + shift


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(WIDTH), torch.randn(WIDTH)]


def get_init_inputs():
    return []
