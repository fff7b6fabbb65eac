"""Rotary embedding of queries and keys in the half-rotation layout."""

import torch
import torch.nn as nn

BATCH = 1
HEADS = 2
LENGTH = 12
HALF_DIM = 12
MAX_LENGTH = 64


class Model(nn.Module):
    def __init__(self, dim, max_length):
        super().__init__()
        frequency = 1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim))
        angle = torch.outer(torch.arange(max_length).float(), frequency)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def forward(self, q, k):
        cos, sin = self.cos[: q.shape[2]], self.sin[: q.shape[2]]

        def turned(x):
            a, b = x.chunk(2, dim=-1)
            return x * cos + torch.cat([-b, a], dim=-1) * sin

        return turned(q), turned(k)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, 2 * HALF_DIM) for _ in range(2)]


def get_init_inputs():
    return [2 * HALF_DIM, MAX_LENGTH]
