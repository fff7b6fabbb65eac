"""A product for each of a batch in float16: 2**31 elements of output."""

import torch
import torch.nn as nn

BATCH = 256
ROWS = 2048
INNER = 512
COLUMNS = 4096


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    return [
        torch.randn(BATCH, ROWS, INNER, dtype=torch.float16),
        torch.randn(BATCH, INNER, COLUMNS, dtype=torch.float16),
    ]


def get_init_inputs():
    return []
