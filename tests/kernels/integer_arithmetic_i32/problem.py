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
    return [torch.randint(-30000, 30000, (ROWS, COLUMNS), dtype=torch.int32) for _ in range(2)]


def get_init_inputs():
    return []
