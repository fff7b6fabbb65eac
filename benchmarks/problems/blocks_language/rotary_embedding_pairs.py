"""Queries and keys turned by angles that grow with each token's own position, neighbours paired: RoPE as in GPT-J."""

import torch
import torch.nn as nn

BATCH = 4
STEPS = 2048
QUERIES = 24
KEYS = 8
PAIRS = 64


class Model(nn.Module):
    def __init__(self, pairs: int) -> None:
        super().__init__()
        self.register_buffer("speed", torch.logspace(0, -3, pairs))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        angle = position[:, :, None, None].to(self.speed.dtype) * self.speed
        return self.turned(query, angle), self.turned(key, angle)

    def turned(self, x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        even, odd = x.float()[..., 0::2], x.float()[..., 1::2]
        pairs = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(pairs, dim=-1).flatten(-2).to(x.dtype)


def get_inputs():
    query, key = (torch.randn(BATCH, STEPS, heads, 2 * PAIRS).to(torch.bfloat16) for heads in (QUERIES, KEYS))
    return [query, key, torch.randint(0, 4000, (BATCH, 1)) + torch.arange(STEPS)]


def get_init_inputs():
    return [PAIRS]
