"""Steps and features change places, each feature scaled: between attention and convolution."""

import torch
import torch.nn as nn

BATCH = 32
STEPS = 8192
WIDTH = 4096


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1.0, 1.5, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).transpose(1, 2).contiguous()


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
