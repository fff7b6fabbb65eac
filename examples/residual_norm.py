"""A residual added, then RMS normalisation, in bfloat16: what every block of a language model does twice."""

import torch
import torch.nn as nn

TOKENS, WIDTH = 8192, 4096


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        total = (x + residual).float()
        scale = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (total * scale).to(x.dtype) * self.weight


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16), torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
