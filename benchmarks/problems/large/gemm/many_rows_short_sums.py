"""A product with sums of 32 and an output of gigabytes: memory binds it, not arithmetic."""

import torch
import torch.nn as nn

ROWS = 524288
INNER = 32
COLUMNS = 2048


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b.T


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)]


def get_init_inputs():
    return []
