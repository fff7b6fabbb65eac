"""Softmax over the middle axis of a bfloat16 tensor."""

import torch
import torch.nn as nn

BATCH = 2
CLASSES = 37
LENGTH = 75


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(BATCH, CLASSES, LENGTH, dtype=torch.bfloat16) * 2.0]


def get_init_inputs():
    return []
