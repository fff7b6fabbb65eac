"""Layer normalisation with scale and shift in float32."""

import torch
import torch.nn as nn

BATCH = 3
STEPS = 7
WIDTH = 75


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
