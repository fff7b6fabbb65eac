"""x U diag(s) V^T + b in float32: a linear layer compressed by singular values."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4096
INPUTS = 2048
RANK = 320
OUTPUTS = 2048


class Model(nn.Module):
    def __init__(self, inputs: int, rank: int, outputs: int) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(inputs, rank) * inputs**-0.5)
        self.values = nn.Parameter(torch.linspace(2.0, 0.1, rank))
        self.right = nn.Parameter(torch.randn(outputs, rank) * rank**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear((x @ self.left) * self.values, self.right, self.bias)


def get_inputs():
    return [torch.randn(ROWS, INPUTS)]


def get_init_inputs():
    return [INPUTS, RANK, OUTPUTS]
