"""A feature map's pixels attend to a prompt's tokens and are put back as a map: Stable Diffusion's transformers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
HEADS = 8
HEAD_WIDTH = 40
SIDE = 64
WORDS = 77
PROMPT = 768


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int, prompt: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(prompt, width, bias=False)
        self.value = nn.Linear(prompt, width, bias=False)
        self.out = nn.Linear(width, width)
        self.half()

    def forward(self, x: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        pixels = x.flatten(2).transpose(1, 2)
        query = self.by_head(self.query(self.norm(pixels)))
        key, value = self.by_head(self.key(prompt)), self.by_head(self.value(prompt))
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return x + self.out(mixed).transpose(1, 2).reshape(x.shape)

    def by_head(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def get_inputs():
    x = 0.2 * torch.randn(BATCH, HEADS * HEAD_WIDTH, SIDE, SIDE)
    return [x.half(), (2 * torch.randn(BATCH, WORDS, PROMPT)).half()]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH, PROMPT]
