import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, c=16, k=3, groups=4):
        super().__init__()
        self.k, self.groups = k, groups
        self.reduce = nn.Conv2d(c, c // 2, 1)
        self.span = nn.Conv2d(c // 2, k * k * groups, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        weight = self.span(F.relu(self.reduce(x))).view(b, self.groups, 1, self.k * self.k, h, w)
        patches = F.unfold(x, self.k, padding=self.k // 2).view(b, self.groups, c // self.groups, self.k * self.k, h, w)
        return (weight * patches).sum(dim=3).view(b, c, h, w)


def get_inputs():
    return [torch.randn(2, 16, 16, 16)]


def get_init_inputs():
    return []
