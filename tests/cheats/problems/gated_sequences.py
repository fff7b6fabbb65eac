"""Sequences gated by others of the same shape."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 12
WIDTH = 32


class Model(nn.Module):
    def forward(self, x, gate):
        return torch.relu(x) * gate


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return []
