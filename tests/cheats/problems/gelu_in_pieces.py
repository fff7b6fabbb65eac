"""The tanh form of GELU spelt out, as many models have it: eight passes where torch has one operator."""

import math

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 128


class Model(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
