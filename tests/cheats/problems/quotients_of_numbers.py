"""One number divided by another."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, y):
        return x / y


def get_inputs():
    return [torch.randn(24, 70), torch.randn(24, 70)]


def get_init_inputs():
    return []
