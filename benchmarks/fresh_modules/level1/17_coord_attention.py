import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, c=32, r=8):
        super().__init__()
        self.reduce = nn.Conv2d(c, r, 1)
        self.bn = nn.BatchNorm2d(r)
        self.h, self.w = nn.Conv2d(r, c, 1), nn.Conv2d(r, c, 1)

    def forward(self, x):
        b, c, hh, ww = x.shape
        a = x.mean(3, keepdim=True)
        d = x.mean(2, keepdim=True).transpose(2, 3)
        y = F.hardswish(self.bn(self.reduce(torch.cat([a, d], dim=2))))
        ya, yd = torch.split(y, [hh, ww], dim=2)
        return x * torch.sigmoid(self.h(ya)) * torch.sigmoid(self.w(yd.transpose(2, 3)))


def get_inputs():
    return [torch.randn(2, 32, 20, 24)]


def get_init_inputs():
    return []
