"""Layer norm with weight and bias."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 8
FEATURES = 96


class Model(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=eps)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES, 1e-5]
