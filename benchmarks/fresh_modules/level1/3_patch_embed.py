import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, patch=8, dim=64, size=64):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        return self.norm(x)


def get_inputs():
    return [torch.randn(4, 3, 64, 64)]


def get_init_inputs():
    return []
