"""A transposed copy of an int32 matrix."""

import torch
import torch.nn as nn

ROWS = 45
COLUMNS = 77


class Model(nn.Module):
    def forward(self, x):
        return x.t().clone(memory_format=torch.contiguous_format)


def get_inputs():
    return [torch.randint(-1000, 1000, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
