"""Logits scaled and shifted per class, then bent back into +-cap by tanh: what Gemma 2 does before sampling."""

import torch
import torch.nn as nn

ROWS = 1024
CLASSES = 32000
CAP = 30.0


class Model(nn.Module):
    def __init__(self, classes: int, cap: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(classes, dtype=torch.bfloat16))
        self.shift = nn.Parameter(torch.zeros(classes, dtype=torch.bfloat16))
        self.cap = cap

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return self.cap * torch.tanh((logits * self.scale + self.shift) / self.cap)


def get_inputs():
    return [(20 * torch.randn(ROWS, CLASSES)).to(torch.bfloat16)]


def get_init_inputs():
    return [CLASSES, CAP]
