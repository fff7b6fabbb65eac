"""Attention and feed-forward side by side on one norm, both added to the residual: GPT-J, PaLM and Falcon layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
STEPS = 1024
HEADS = 16
HEAD_WIDTH = 96


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        query, key, value = self.project_in(normal).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        attended = self.project_out(mixed.transpose(1, 2).flatten(2))
        return x + attended + self.down(F.gelu(self.up(normal), approximate="tanh"))


def get_inputs():
    return [(0.3 * torch.randn(BATCH, STEPS, HEADS * HEAD_WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
