import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c=7, length=48, pred=12):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.rand(c) + 0.5), nn.Parameter(torch.randn(c))
        self.lin = nn.Linear(length, pred)

    def forward(self, x):
        m = x.mean(1, keepdim=True).detach()
        s = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = (x - m) / s * self.g + self.b
        y = self.lin(y.transpose(1, 2)).transpose(1, 2)
        return (y - self.b) / (self.g + 1e-8) * s + m


def get_inputs():
    return [torch.randn(4, 48, 7)]


def get_init_inputs():
    return []
