"""Automatic gain: divides by a peak that falls by half with every call and rises at once."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.ones(()))

    def forward(self, x):
        self.peak.copy_(torch.maximum(x.abs().amax() + 1e-6, 0.5 * self.peak))
        return x / self.peak


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
