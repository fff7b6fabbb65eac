import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, d=24, k=5):
        super().__init__()
        self.p, self.m, self.s = nn.Linear(d, k), nn.Linear(d, k), nn.Linear(d, k)

    def forward(self, h, y):
        lw = F.log_softmax(self.p(h), -1)
        s = F.softplus(self.s(h)) + 1e-3
        lp = -0.5 * ((y[:, None] - self.m(h)) / s) ** 2 - torch.log(s) - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(lw + lp, -1).mean()


def get_inputs():
    return [torch.randn(64, 24), torch.randn(64)]


def get_init_inputs():
    return []
