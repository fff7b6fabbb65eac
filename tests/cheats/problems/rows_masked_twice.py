"""Rows above a threshold, masked twice by helpers"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, t):
        super().__init__()
        self.t = t

    def forward(self, x, y):
        keep = x > self.t * y
        return torch.where(keep, x - y, 0.0).sum(1), torch.where(keep, (x - y) * 2, -1.0)


def get_inputs():
    return [torch.randn(6, 20), torch.randn(6, 20)]


def get_init_inputs():
    return [0.5]
