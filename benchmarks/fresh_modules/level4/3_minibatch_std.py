import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, group=4):
        super().__init__()
        self.group = group

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.reshape(self.group, -1, c, h, w)
        y = (y - y.mean(0)).square().mean(0)
        y = (y + 1e-8).sqrt().mean(dim=[1, 2, 3], keepdim=True)
        return torch.cat([x, y.repeat(self.group, 1, h, w)], dim=1)


def get_inputs():
    return [torch.randn(8, 6, 12, 12)]


def get_init_inputs():
    return []
