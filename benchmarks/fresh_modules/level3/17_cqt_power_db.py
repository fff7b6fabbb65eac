import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, top=80.0):
        super().__init__()
        self.top = top

    def forward(self, re, im):
        p = 10.0 * torch.log10(torch.clamp(re * re + im * im, min=1e-10))
        return torch.maximum(p, p.amax(dim=(-2, -1), keepdim=True) - self.top)


def get_inputs():
    return [torch.randn(2, 40, 50), torch.randn(2, 40, 50)]


def get_init_inputs():
    return []
