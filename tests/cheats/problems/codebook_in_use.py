"""Rows replaced by the nearest code of a codebook, whose codes move towards their rows in every call."""

import torch
import torch.nn as nn

ROWS = 48
CODES = 12
WIDTH = 8


class Model(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, width))

    def forward(self, x):
        nearest = (x.unsqueeze(1) - self.codes).square().sum(2).argmin(1)
        chosen = (nearest.unsqueeze(0) == torch.arange(len(self.codes), device=x.device).unsqueeze(1)).float()
        count = chosen.sum(1, keepdim=True)
        mean = (chosen.unsqueeze(2) * x).sum(1) / count.clamp(min=1.0)
        out = self.codes[nearest]
        self.codes.copy_(torch.where(count > 0, 0.8 * self.codes + 0.2 * mean, self.codes))
        return out


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [CODES, WIDTH]
