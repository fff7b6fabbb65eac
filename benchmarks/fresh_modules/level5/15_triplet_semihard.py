import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, margin=0.2):
        super().__init__()
        self.margin = margin

    def forward(self, x, labels):
        d = torch.cdist(x, x)
        same = labels[:, None] == labels[None]
        pos = torch.where(same, d, torch.zeros_like(d)).amax(1)
        neg = torch.where(same, torch.full_like(d, 1e6), d).amin(1)
        return F.relu(pos - neg + self.margin).mean()


def get_inputs():
    return [torch.randn(32, 16), torch.randint(0, 4, (32,))]


def get_init_inputs():
    return []
