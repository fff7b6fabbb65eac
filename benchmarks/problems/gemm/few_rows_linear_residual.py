"""A wide linear layer on a few rows, bias and residual added: one decoding step of a large language model."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4
WIDTH = 10240


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + self.project(F.silu(x))


def get_inputs():
    return [(2 * torch.randn(ROWS, WIDTH)).to(torch.bfloat16), torch.randn(ROWS, WIDTH).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
