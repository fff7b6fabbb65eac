import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, lags=16):
        super().__init__()
        self.lags = lags

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        n = x.shape[-1]
        out = [(x[:, : n - lag] * x[:, lag:]).sum(-1) for lag in range(self.lags)]
        r = torch.stack(out, -1)
        return r / r[:, :1].clamp(min=1e-6)


def get_inputs():
    return [torch.randn(8, 128)]


def get_init_inputs():
    return []
