"""A weight matrix of its own for every group, squared ReLU: experts with a fixed share of tokens, multi-task heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F

GROUPS = 12
ROWS = 1024
INPUTS = 1024
OUTPUTS = 1536


class Model(nn.Module):
    def __init__(self, groups: int, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.randn(groups, inputs, outputs) * inputs**-0.5
        self.weight = nn.Parameter(weight.to(torch.bfloat16))
        self.bias = nn.Parameter(torch.zeros(groups, 1, outputs, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(torch.baddbmm(self.bias, x, self.weight)).square()


def get_inputs():
    return [torch.randn(GROUPS, ROWS, INPUTS).to(torch.bfloat16)]


def get_init_inputs():
    return [GROUPS, INPUTS, OUTPUTS]
