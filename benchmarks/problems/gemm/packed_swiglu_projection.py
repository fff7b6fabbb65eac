"""One projection to twice the width, one half gating the other by SiLU: packed SwiGLU of Phi and GLM models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4096
INPUTS = 2048
OUTPUTS = 5632


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, 2 * outputs, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.project(x).chunk(2, dim=-1)
        return F.silu(gate) * value


def get_inputs():
    return [(3 * torch.randn(ROWS, INPUTS)).to(torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
