import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, mu=255):
        super().__init__()
        self.mu = mu

    def forward(self, x):
        y = torch.sign(x) * torch.log1p(self.mu * x.abs()) / math.log1p(self.mu)
        q = ((y + 1) / 2 * self.mu + 0.5).floor().clamp(0, self.mu)
        z = q / self.mu * 2 - 1
        return q.to(torch.int64), torch.sign(z) * ((1 + self.mu) ** z.abs() - 1) / self.mu


def get_inputs():
    return [torch.rand(4, 500) * 2 - 1]


def get_init_inputs():
    return []
