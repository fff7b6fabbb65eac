import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, bias=False)
        self.norm = nn.InstanceNorm2d(c, affine=True)

    def forward(self, x):
        y = F.pad(x, (1, 1, 1, 1), mode="reflect")
        return F.leaky_relu(self.norm(self.conv(y)), 0.2) + x


def get_inputs():
    return [torch.randn(2, 16, 24, 24)]


def get_init_inputs():
    return []
