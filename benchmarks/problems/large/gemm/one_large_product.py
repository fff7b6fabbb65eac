"""One matrix product in float32, its sides different powers and multiples of two."""

import torch
import torch.nn as nn

ROWS = 24576
INNER = 16384
COLUMNS = 16384


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)]


def get_init_inputs():
    return []
