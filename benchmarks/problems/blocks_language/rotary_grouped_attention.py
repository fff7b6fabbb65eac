"""RMS norm, rotary positions, causal attention with shared keys and values, residual: half a Llama layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
STEPS = 1024
GROUPS = 4
SHARING = 4
HEAD_WIDTH = 128


class Model(nn.Module):
    def __init__(self, groups: int, sharing: int, head_width: int) -> None:
        super().__init__()
        width = groups * sharing * head_width
        self.head_width = head_width
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * head_width, bias=False)
        self.value = nn.Linear(width, groups * head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        query = self.rotated(self.by_head(self.query(normal)), cosine, sine)
        key = self.rotated(self.by_head(self.key(normal)), cosine, sine)
        value = self.by_head(self.value(normal))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))

    def by_head(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def rotated(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat([-second, first], dim=-1) * sine


def get_inputs():
    angles = torch.rand(STEPS, 1) * STEPS * torch.logspace(0, -4, HEAD_WIDTH // 2)
    angles = torch.cat([angles, angles], dim=-1)
    x = 0.2 * torch.randn(BATCH, STEPS, GROUPS * SHARING * HEAD_WIDTH)
    return [x.to(torch.bfloat16), angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)]


def get_init_inputs():
    return [GROUPS, SHARING, HEAD_WIDTH]
