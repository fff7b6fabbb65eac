import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, i=8, o=12, k=3, s=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i, k, k))
        self.affine = nn.Linear(s, i)

    def forward(self, x, style):
        b, i, h, w = x.shape
        st = self.affine(style) + 1
        wt = self.weight[None] * st[:, None, :, None, None]
        wt = wt * torch.rsqrt(wt.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        o = self.weight.shape[0]
        y = F.conv2d(x.reshape(1, b * i, h, w), wt.reshape(b * o, i, 3, 3), padding=1, groups=b)
        return y.reshape(b, o, h, w)


def get_inputs():
    return [torch.randn(4, 8, 16, 16), torch.randn(4, 16)]


def get_init_inputs():
    return []
