"""The best class of every row and how far it is ahead of the second: confidence in active learning and early exits."""

import torch
import torch.nn as nn

ROWS = 16384
CLASSES = 1000


class Model(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(classes))

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = (scores + self.offset).topk(2, dim=-1)
        return values[:, 0] - values[:, 1], indices[:, 0]


def get_inputs():
    return [torch.randn(ROWS, CLASSES)]


def get_init_inputs():
    return [CLASSES]
