import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, bins=16):
        super().__init__()
        self.register_buffer("centers", torch.linspace(-3, 3, bins))
        self.width = 6.0 / (bins - 1)

    def forward(self, x):
        d = (x[..., None] - self.centers).abs()
        w = (1 - d / self.width).clamp(min=0)
        h = w.sum(1)
        return h / (h.sum(-1, keepdim=True) + 1e-8)


def get_inputs():
    return [torch.randn(8, 200)]


def get_init_inputs():
    return []
