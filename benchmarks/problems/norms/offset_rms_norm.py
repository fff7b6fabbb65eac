"""Root-mean-square norm in float32 with a weight stored as its distance from one: Gemma's norm."""

import torch
import torch.nn as nn

BATCH = 4
STEPS = 2048
WIDTH = 3072


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
        return (scaled * (1.0 + self.weight.float())).to(x.dtype)


def get_inputs():
    return [(torch.randn(BATCH, STEPS, WIDTH) + 0.3).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
