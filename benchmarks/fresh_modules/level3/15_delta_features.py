import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.n = n
        self.register_buffer("k", torch.arange(-n, n + 1).float())

    def forward(self, x):
        b, c, t = x.shape
        p = F.pad(x, (self.n, self.n), mode="replicate")
        w = p.unfold(-1, 2 * self.n + 1, 1)
        d = (w * self.k).sum(-1) / (2 * (self.k**2).sum() / 2)
        return torch.cat([x, d], 1)


def get_inputs():
    return [torch.randn(2, 13, 60)]


def get_init_inputs():
    return []
