"""Rows in bfloat16, scaled in float32."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16).float() * 1.5


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
