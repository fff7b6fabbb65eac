import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=64, out=96):
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, out), nn.SiLU(), nn.Linear(out, out))

    def forward(self, t):
        half = self.dim // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
        a = t.float()[:, None] * f[None]
        return self.mlp(torch.cat([torch.cos(a), torch.sin(a)], dim=-1))


def get_inputs():
    return [torch.randint(0, 1000, (16,))]


def get_init_inputs():
    return []
