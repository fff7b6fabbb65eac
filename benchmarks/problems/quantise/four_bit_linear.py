"""A linear layer whose weights are two to a byte with a scale and a zero point per group: GPTQ and AWQ models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 512
INPUTS = 4096
OUTPUTS = 4096
GROUP = 64


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, group: int) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8))
        scale = (0.5 + torch.rand(outputs, inputs // group)) / 8 / inputs**0.5
        self.scale = nn.Parameter(scale.half())
        self.zero = nn.Parameter(torch.randint(5, 11, (outputs, inputs // group)).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.stack([self.packed & 15, self.packed >> 4], dim=-1).flatten(1)
        grouped = steps.unflatten(1, (-1, self.group)).to(x.dtype)
        weight = (grouped - self.zero[:, :, None]) * self.scale[:, :, None]
        return F.linear(x, weight.flatten(1))


def get_inputs():
    return [torch.randn(ROWS, INPUTS).half()]


def get_init_inputs():
    return [INPUTS, OUTPUTS, GROUP]
