"""Softmax of cosines between rows and learnt directions, times a learnt scale."""

import torch
import torch.nn as nn

ROWS = 16
KINDS = 24
WIDTH = 32


class Model(nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.directions = nn.Parameter(torch.randn(kinds, width))
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        x = x / (x.norm(dim=-1, keepdim=True) + 1e-6)
        directions = self.directions / (self.directions.norm(dim=-1, keepdim=True) + 1e-6)
        return torch.softmax(self.scale * (x[:, None, :] * directions).sum(-1), dim=-1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [KINDS, WIDTH]
