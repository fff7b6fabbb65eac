import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, tokens=49, dim=64):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.t = nn.Sequential(nn.Linear(tokens, 96), nn.GELU(), nn.Linear(96, tokens))
        self.c = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, dim))

    def forward(self, x):
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


def get_inputs():
    return [torch.randn(4, 49, 64)]


def get_init_inputs():
    return []
