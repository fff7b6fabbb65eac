import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, d=64, r=8, alpha=16.0):
        super().__init__()
        self.base = nn.Linear(d, d)
        self.a = nn.Linear(d, r, bias=False)
        self.b = nn.Linear(r, d, bias=False)
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scale


def get_inputs():
    return [torch.randn(4, 32, 64)]


def get_init_inputs():
    return []
