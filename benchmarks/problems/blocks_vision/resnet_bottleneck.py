"""1x1, 3x3 and 1x1 convolutions with frozen batch norms around a shortcut: ResNet-50, detection backbones."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
NARROW = 64
HEIGHT = 64
WIDTH = 64


class FrozenNorm(nn.Module):
    """Batch norm by fixed statistics."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=1e-3)


class Model(nn.Module):
    def __init__(self, narrow: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(4 * narrow, narrow, 1, bias=False)
        self.first_norm = FrozenNorm(narrow)
        self.second = nn.Conv2d(narrow, narrow, 3, padding=1, bias=False)
        self.second_norm = FrozenNorm(narrow)
        self.third = nn.Conv2d(narrow, 4 * narrow, 1, bias=False)
        self.third_norm = FrozenNorm(4 * narrow)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first_norm(self.first(x)))
        y = F.relu(self.second_norm(self.second(y)))
        return F.relu(self.third_norm(self.third(y)) + x)


def get_inputs():
    return [torch.randn(BATCH, 4 * NARROW, HEIGHT, WIDTH)]


def get_init_inputs():
    return [NARROW]
