"""A linear layer with bias and the tanh form of GELU: the first half of a GPT-2 feed-forward block."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 8192
INPUTS = 1024
OUTPUTS = 4096


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, outputs, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.project(x), approximate="tanh")


def get_inputs():
    return [(2 * torch.randn(ROWS, INPUTS)).to(torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
