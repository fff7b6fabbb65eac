"""Two 3x3 convolutions with group norm and ReLU, then a max pool, both handed on: the way down of a U-Net."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
INPUTS = 64
OUTPUTS = 128
GROUPS = 8
HEIGHT = 96
WIDTH = 96


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(groups, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(groups, outputs)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.relu(self.first_norm(self.first(x)))
        y = F.relu(self.second_norm(self.second(y)))
        return y, F.max_pool2d(y, 2)


def get_inputs():
    return [torch.randn(BATCH, INPUTS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS, GROUPS]
