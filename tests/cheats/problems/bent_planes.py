"""Each image of a batch, scaled and bent."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2 + x


def get_inputs():
    return [torch.randn(3, 4, 11, 16)]


def get_init_inputs():
    return []
