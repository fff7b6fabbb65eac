import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, d=32, k=15):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.p1 = nn.Conv1d(d, 2 * d, 1)
        self.dw = nn.Conv1d(d, d, k, padding=k // 2, groups=d)
        self.bn = nn.BatchNorm1d(d)
        self.p2 = nn.Conv1d(d, d, 1)

    def forward(self, x):
        y = self.ln(x).transpose(1, 2)
        y = F.glu(self.p1(y), dim=1)
        y = F.silu(self.bn(self.dw(y)))
        return x + self.p2(y).transpose(1, 2)


def get_inputs():
    return [torch.randn(2, 60, 32)]


def get_init_inputs():
    return []
