"""Splits features into heads, scales them, and puts the heads first."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 12
HEADS = 4
HEAD_DIM = 10


class Model(nn.Module):
    def __init__(self, heads, scale):
        super().__init__()
        self.heads = heads
        self.scale = scale

    def forward(self, x):
        batch, length, features = x.shape
        split = x.view(batch, length, self.heads, features // self.heads)
        return (split.transpose(1, 2) * self.scale).contiguous()


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM)]


def get_init_inputs():
    return [HEADS, 0.25]
