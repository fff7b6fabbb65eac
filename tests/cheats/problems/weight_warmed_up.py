"""A penalty's weight grows with every training step, up to one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, mean, logvar):
        self.weight.add_(1e-3).clamp_(max=1.0)
        return self.weight * (-0.5 * (1 + logvar - mean * mean - logvar.exp()).sum(-1))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
