"""A linear layer plus a low-rank detour with a scale: LoRA while it is being trained."""

import torch
import torch.nn as nn

ROWS = 4096
INPUTS = 3072
OUTPUTS = 2048
RANK = 16


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs, dtype=torch.bfloat16)
        self.down = nn.Linear(inputs, rank, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(rank, outputs, bias=False, dtype=torch.bfloat16)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.scale * self.up(self.down(x))


def get_inputs():
    return [torch.randn(ROWS, INPUTS).to(torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS, RANK]
