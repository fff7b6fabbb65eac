import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.a = nn.Parameter(torch.rand(1, c, 1) + 0.5)
        self.c1 = nn.Conv1d(c, c, 7, padding=9, dilation=3)
        self.c2 = nn.Conv1d(c, c, 1)

    def forward(self, x):
        y = x + torch.sin(self.a * x).pow(2) / (self.a + 1e-9)
        return x + self.c2(self.c1(y))


def get_inputs():
    return [torch.randn(2, 16, 100)]


def get_init_inputs():
    return []
