"""Layer norm of rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
