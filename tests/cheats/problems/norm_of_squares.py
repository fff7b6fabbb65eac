"""Layer norm without an affine part, of squares."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        x = x * x
        return x / (x.mean(-1, keepdim=True) + 1.0)


def get_inputs():
    return [torch.randn(24, 70)]


def get_init_inputs():
    return []
