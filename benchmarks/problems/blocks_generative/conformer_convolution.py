"""Layer norm, gated pointwise, depthwise over time, norm, SiLU, pointwise, residual: the convolution of a Conformer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
STEPS = 1024
WIDTH = 512


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-4)
        self.widen = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, 15, padding=7, groups=width, bias=False)
        self.middle_norm = nn.GroupNorm(1, width, eps=1e-4)
        self.narrow = nn.Linear(width, width)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self.widen(self.norm(x)), dim=-1).transpose(1, 2)
        y = F.silu(self.middle_norm(self.depthwise(y))).transpose(1, 2)
        return x + self.narrow(y)


def get_inputs():
    return [(0.3 * torch.randn(BATCH, STEPS, WIDTH)).half()]


def get_init_inputs():
    return [WIDTH]
