import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, lam=1e-4):
        super().__init__()
        self.lam = lam

    def forward(self, x):
        n = x.shape[2] * x.shape[3] - 1
        d = (x - x.mean(dim=(2, 3), keepdim=True)).pow(2)
        v = d.sum(dim=(2, 3), keepdim=True) / n
        return x * torch.sigmoid(d / (4 * (v + self.lam)) + 0.5)


def get_inputs():
    return [torch.randn(4, 16, 20, 20)]


def get_init_inputs():
    return []
