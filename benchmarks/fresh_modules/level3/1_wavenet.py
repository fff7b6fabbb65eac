import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, c=24, d=2):
        super().__init__()
        self.d = d
        self.f = nn.Conv1d(c, c, 2, dilation=d)
        self.g = nn.Conv1d(c, c, 2, dilation=d)
        self.r = nn.Conv1d(c, c, 1)
        self.s = nn.Conv1d(c, c, 1)

    def forward(self, x):
        p = F.pad(x, (self.d, 0))
        y = torch.tanh(self.f(p)) * torch.sigmoid(self.g(p))
        return x + self.r(y), self.s(y)


def get_inputs():
    return [torch.randn(4, 24, 128)]


def get_init_inputs():
    return []
