"""Three layers x <- x0 * (W x + b) + x, which multiply features with one another: deep and cross networks."""

import torch
import torch.nn as nn

ROWS = 8192
WIDTH = 1024


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.half()

    def forward(self, first: torch.Tensor) -> torch.Tensor:
        x = first
        for layer in self.layers:
            x = first * layer(x) + x
        return x


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH]
