import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, i=16, h=16):
        super().__init__()
        self.wi, self.wh = nn.Linear(i, 3 * h), nn.Linear(h, 3 * h)
        self.h = h

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.h, device=x.device)
        gi = self.wi(x)
        for t in range(5):
            ir, iz, inn = gi[:, t].chunk(3, -1)
            hr, hz, hn = self.wh(h).chunk(3, -1)
            r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
            n = torch.tanh(inn + r * hn)
            h = (1 - z) * n + z * h
        return h


def get_inputs():
    return [torch.randn(8, 5, 16)]


def get_init_inputs():
    return []
