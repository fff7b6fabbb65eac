import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        k = torch.tensor([1.0, 3.0, 3.0, 1.0])
        k = k[:, None] * k[None]
        self.register_buffer("k", (k / k.sum())[None, None].repeat(c, 1, 1, 1))
        self.c = c

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), self.k, stride=2, groups=self.c)


def get_inputs():
    return [torch.randn(2, 8, 20, 20)]


def get_init_inputs():
    return []
