import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(c, c // 4), nn.ReLU(), nn.Linear(c // 4, c))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        a = self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))
        x = x * torch.sigmoid(a)[..., None, None]
        s = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True).values], 1)
        return x * torch.sigmoid(self.spatial(s))


def get_inputs():
    return [torch.randn(4, 32, 20, 20)]


def get_init_inputs():
    return []
