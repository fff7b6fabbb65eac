"""A level that follows the input, quickly up and slowly down, and the input over it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("level", torch.zeros(columns))

    def forward(self, x):
        now = x.square().mean(0)
        speed = torch.where(now > self.level, 0.5, 0.02)
        self.level.add_(speed * (now - self.level))
        return x / (self.level + 1e-3).sqrt()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
