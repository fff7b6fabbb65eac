"""A gate that opens above one level, closes below another, and otherwise stays as it is."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("opened", torch.zeros(()))

    def forward(self, x):
        level = x.square().mean().sqrt()
        kept = torch.where(level < 0.1, torch.zeros_like(level), self.opened)
        self.opened.copy_(torch.where(level > 0.5, torch.ones_like(level), kept))
        return x * self.opened


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
