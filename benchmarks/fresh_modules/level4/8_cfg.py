import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, scale=7.5, rescale=0.7):
        super().__init__()
        self.scale, self.rescale = scale, rescale

    def forward(self, both):
        u, c = both.chunk(2)
        g = u + self.scale * (c - u)
        sc, sg = c.std(dim=[1, 2, 3], keepdim=True), g.std(dim=[1, 2, 3], keepdim=True)
        return self.rescale * g * (sc / sg) + (1 - self.rescale) * g


def get_inputs():
    return [torch.randn(4, 4, 16, 16)]


def get_init_inputs():
    return []
