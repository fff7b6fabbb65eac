"""Pairs turned by an angle for each column, scaled and shifted."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.angle = nn.Parameter(torch.randn(columns // 2))

    def forward(self, x, gate, rest, more):
        cos, sin = torch.cos(self.angle), torch.sin(self.angle)
        one, other = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((one * cos - other * sin, one * sin + other * cos), dim=-1).flatten(-2)
        return turned * gate + rest * more


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) for _ in range(4)]


def get_init_inputs():
    return [COLUMNS]
