"""RMS norm, gate and up with SiLU, down, residual: the feed-forward block of Llama, Mistral and Qwen."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4096
WIDTH = 2048
HIDDEN = 5504


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        return x + self.down(F.silu(self.gate(normal)) * self.up(normal))


def get_inputs():
    return [(0.1 * torch.randn(ROWS, WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
