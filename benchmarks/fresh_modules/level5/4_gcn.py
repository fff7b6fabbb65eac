import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, i=16, o=24):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)

    def forward(self, x, adj):
        a = adj + torch.eye(adj.shape[-1], device=adj.device)
        d = a.sum(-1).clamp(min=1).rsqrt()
        return F.relu((d[..., :, None] * a * d[..., None, :]) @ self.lin(x))


def get_inputs():
    return [torch.randn(2, 30, 16), (torch.rand(2, 30, 30) > 0.8).float()]


def get_init_inputs():
    return []
