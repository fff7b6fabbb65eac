import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(dim))
        self.key = nn.Linear(dim, 4 * dim, bias=False)
        self.value = nn.Linear(4 * dim, dim, bias=False)
        self.gate = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        prev = F.pad(x, (0, 0, 1, -1))
        xk = x * self.mix + prev * (1 - self.mix)
        k = torch.square(torch.relu(self.key(xk)))
        return torch.sigmoid(self.gate(xk)) * self.value(k)


def get_inputs():
    return [torch.randn(2, 48, 64)]


def get_init_inputs():
    return []
