"""Adds a branch to the residual stream and normalises: both are handed on, as in every pre-norm transformer."""

import torch
import torch.nn as nn

ROWS = 16384
WIDTH = 2048


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5, dtype=torch.bfloat16)

    def forward(self, branch: torch.Tensor, stream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stream = stream + branch
        return self.norm(stream), stream


def get_inputs():
    return [torch.randn(ROWS, WIDTH).to(torch.bfloat16), (2 * torch.randn(ROWS, WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
