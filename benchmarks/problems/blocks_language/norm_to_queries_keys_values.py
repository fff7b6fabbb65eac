"""RMS norm, then three projections with bias, keys and values narrower: the entry of a Qwen attention layer."""

import torch
import torch.nn as nn

ROWS = 4096
WIDTH = 3072
NARROW = 512


class Model(nn.Module):
    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-4)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, narrow)
        self.value = nn.Linear(width, narrow)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        normal = self.norm(x)
        return self.query(normal), self.key(normal), self.value(normal)


def get_inputs():
    return [(torch.randn(ROWS, WIDTH) + 0.2).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, NARROW]
