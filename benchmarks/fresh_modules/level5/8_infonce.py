import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, t=0.07):
        super().__init__()
        self.t = t

    def forward(self, a, b):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        logits = a @ b.t() / self.t
        y = torch.arange(a.shape[0], device=a.device)
        return (F.cross_entropy(logits, y) + F.cross_entropy(logits.t(), y)) / 2


def get_inputs():
    return [torch.randn(32, 24), torch.randn(32, 24)]


def get_init_inputs():
    return []
