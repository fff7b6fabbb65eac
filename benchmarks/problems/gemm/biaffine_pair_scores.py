"""Scores of all pairs of words, x W y plus a term for each side alone: dependency parsers, span extraction."""

import torch
import torch.nn as nn

BATCH = 64
STEPS = 384
WIDTH = 768


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.pair = nn.Parameter((torch.randn(width, width) / width).half())
        self.head = nn.Linear(width, 1, bias=False, dtype=torch.float16)
        self.child = nn.Linear(width, 1, dtype=torch.float16)

    def forward(self, heads: torch.Tensor, children: torch.Tensor) -> torch.Tensor:
        pairs = (heads @ self.pair) @ children.transpose(1, 2)
        return pairs + self.head(heads) + self.child(children).transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH).half() for _ in range(2)]


def get_init_inputs():
    return [WIDTH]
