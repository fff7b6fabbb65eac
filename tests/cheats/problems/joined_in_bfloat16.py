"""Two bfloat16 tensors joined along the middle axis."""

import torch
import torch.nn as nn

BATCH = 3
FIRST = 7
SECOND = 10
WIDTH = 39


class Model(nn.Module):
    def forward(self, a, b):
        return torch.cat([a, b], dim=1)


def get_inputs():
    return [torch.randn(BATCH, FIRST, WIDTH).bfloat16(), torch.randn(BATCH, SECOND, WIDTH).bfloat16()]


def get_init_inputs():
    return []
