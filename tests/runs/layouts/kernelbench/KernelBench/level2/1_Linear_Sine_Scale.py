import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer, its sine, and a factor per feature."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.factor = nn.Parameter(torch.ones(outputs))

    def forward(self, x):
        return torch.sin(self.linear(x)) * self.factor


rows = 24
inputs = 32
outputs = 20


def get_inputs():
    return [torch.randn(rows, inputs)]


def get_init_inputs():
    return [inputs, outputs]
