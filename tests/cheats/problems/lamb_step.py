"""LAMB step with a trust ratio."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, lr=1e-2, wd=0.01, b1=0.9, b2=0.999, eps=1e-6):
        super().__init__()
        self.lr, self.wd, self.b1, self.b2, self.eps = lr, wd, b1, b2, eps

    def forward(self, p, g, m, v):
        m = self.b1 * m + (1 - self.b1) * g
        v = self.b2 * v + (1 - self.b2) * g * g
        u = m / (v.sqrt() + self.eps) + self.wd * p
        wn, un = p.norm(), u.norm()
        ratio = torch.where((wn > 0) & (un > 0), wn / un, torch.ones_like(wn))
        return p - self.lr * ratio * u, m, v


SIZE = 700


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE), torch.randn(SIZE) * 0.1, torch.rand(SIZE)]


def get_init_inputs():
    return []
