import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Layer norm, a linear layer, half of it gating the other half."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x):
        return F.glu(self.linear(self.norm(x)), dim=-1)


rows = 24
width = 32


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width]
