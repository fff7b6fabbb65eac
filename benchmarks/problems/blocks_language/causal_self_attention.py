"""Layer norm, projection to queries, keys and values, causal attention, projection, residual: half a GPT-2 layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
STEPS = 1024
HEADS = 16
HEAD_WIDTH = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.project_in(self.norm(x))
        query, key, value = packed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.project_out(mixed.transpose(1, 2).flatten(2))


def get_inputs():
    return [(0.3 * torch.randn(BATCH, STEPS, HEADS * HEAD_WIDTH)).half()]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
