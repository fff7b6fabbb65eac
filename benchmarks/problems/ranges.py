"""Three modules that are called at many sizes: a norm, an MLP with many batches, an attention block of many lengths."""

import torch
from torch import nn


class Norm(nn.Module):
    """RMS norm of rows, scaled."""

    def __init__(self, features: int, dtype: str) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(features, dtype=getattr(torch, dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * 2.0


class Mlp(nn.Module):
    """Two layers with a residual."""

    def __init__(self, features: int, hidden: int, dtype: str) -> None:
        super().__init__()
        self.up = nn.Linear(features, hidden, dtype=getattr(torch, dtype))
        self.down = nn.Linear(hidden, features, dtype=getattr(torch, dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Attention(nn.Module):
    """A norm, then causal attention over a sequence, with a residual."""

    def __init__(self, features: int, heads: int, dtype: str) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(features, dtype=getattr(torch, dtype))
        self.qkv = nn.Linear(features, 3 * features, dtype=getattr(torch, dtype))
        self.out = nn.Linear(features, features, dtype=getattr(torch, dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples, length, features = x.shape
        qkv = self.qkv(self.norm(x)).view(samples, length, 3, self.heads, features // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(samples, length, features))
