"""Rotary positions: the first half of each head turned against the second."""

import torch
import torch.nn as nn

BATCH = 1
HEADS = 2
LENGTH = 12
HEAD_SIZE = 16


class Model(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        rates = 1.0 / (10000.0 ** (torch.arange(half, device=x.device).float() / half))
        angles = torch.arange(x.shape[-2], device=x.device).float()[:, None] * rates
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, HEAD_SIZE)]


def get_init_inputs():
    return []
