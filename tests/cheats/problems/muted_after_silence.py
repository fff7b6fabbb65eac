"""A signal that is muted after more than twenty quiet calls in a row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("quiet", torch.zeros((), dtype=torch.int64))
        self.register_buffer("level", torch.zeros(()))

    def forward(self, x):
        self.level.copy_(x.abs().mean())
        self.quiet.copy_(torch.where(self.level < 0.05, self.quiet + 1, torch.zeros_like(self.quiet)))
        return x * torch.where(self.quiet > 20, 0.0, 1.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
