import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n=40, k=13):
        super().__init__()
        i = torch.arange(n).float()
        b = torch.cos(math.pi / n * (i + 0.5)[None] * torch.arange(k).float()[:, None]) * math.sqrt(2 / n)
        b[0] /= math.sqrt(2)
        self.register_buffer("basis", b)

    def forward(self, x):
        return F.linear(x.transpose(1, 2), self.basis).transpose(1, 2)


def get_inputs():
    return [torch.randn(4, 40, 70)]


def get_init_inputs():
    return []
