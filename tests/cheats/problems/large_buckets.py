"""In which of sixteen buckets each of many numbers falls."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 4096


class Model(nn.Module):
    def forward(self, x):
        return (x * 4).floor().clamp(-8, 7).to(torch.int32)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
