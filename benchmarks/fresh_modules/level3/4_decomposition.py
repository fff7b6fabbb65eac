import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, k=9, length=48, pred=24):
        super().__init__()
        self.k = k
        self.trend, self.season = nn.Linear(length, pred), nn.Linear(length, pred)

    def forward(self, x):
        p = (self.k - 1) // 2
        padded = torch.cat([x[:, :1].repeat(1, p, 1), x, x[:, -1:].repeat(1, p, 1)], dim=1)
        trend = F.avg_pool1d(padded.transpose(1, 2), self.k, 1)
        season = x.transpose(1, 2) - trend
        return (self.trend(trend) + self.season(season)).transpose(1, 2)


def get_inputs():
    return [torch.randn(4, 48, 7)]


def get_init_inputs():
    return []
