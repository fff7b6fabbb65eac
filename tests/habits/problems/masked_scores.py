"""Scaled scores with a mask and a bias that is broadcast."""

import torch
import torch.nn as nn

BATCH = 2
ROWS = 10
COLUMNS = 30


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores, bias, mask):
        return (scores * self.scale + bias[None, None, :]).masked_fill(mask, -10000.0)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLUMNS), torch.randn(COLUMNS), torch.rand(BATCH, ROWS, COLUMNS) < 0.3]


def get_init_inputs():
    return [0.125]
