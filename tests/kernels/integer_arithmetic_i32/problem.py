"""Exact int32 arithmetic: product, floor division, shift and exclusive or."""

import torch
import torch.nn as nn

ROWS = 29
COLUMNS = 101


class Model(nn.Module):
    def forward(self, a, b):
        floor = torch.div(a, 7, rounding_mode="floor")
        return torch.bitwise_xor(a * b + floor, b >> 3)


def get_inputs():
    shape = (ROWS, COLUMNS)
    return [
        torch.randint(-30000, 30000, shape, dtype=torch.int32),
        torch.randint(-30000, 30000, shape, dtype=torch.int32),
    ]


def get_init_inputs():
    return []
