"""Scores over a fixed temperature."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("temperature", torch.tensor(0.8))

    def forward(self, x):
        return torch.softmax(x / self.temperature, -1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
