import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x):
        b, c, h, w = x.shape
        ys = torch.linspace(-1.0, 1.0, h, device=x.device)
        xs = torch.linspace(-1.0, 1.0, w, device=x.device)
        p = F.softmax(x.view(b, c, h * w) / self.temperature, dim=-1).view(b, c, h, w)
        return torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], dim=-1)


def get_inputs():
    return [torch.randn(4, 16, 20, 24)]


def get_init_inputs():
    return []
