"""All pairs of two sets of vectors, scored and bounded, in float32: a batched product with an epilogue."""

import torch
import torch.nn as nn

BATCH, LENGTH, WIDTH = 16, 1024, 256


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = width**-0.5

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.bmm(a, b.transpose(1, 2)) * self.scale)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
