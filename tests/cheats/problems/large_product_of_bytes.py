"""Products of bytes, added up as integers."""

import torch
import torch.nn as nn

ROWS = 256
DEPTH = 2048
COLUMNS = 512


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.to(torch.int32), b.to(torch.int32))


def get_inputs():
    return [
        torch.randint(-128, 128, (ROWS, DEPTH), dtype=torch.int8),
        torch.randint(-128, 128, (DEPTH, COLUMNS), dtype=torch.int8),
    ]


def get_init_inputs():
    return []
