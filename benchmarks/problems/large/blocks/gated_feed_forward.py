"""The feed-forward layer of a language model, gated by SiLU, over many tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 131072
WIDTH = 4096
HIDDEN = 11008


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(width, hidden, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(hidden, width, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
