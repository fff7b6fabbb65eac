"""Images less the mean of their channels, over their spread, as usual for photographs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
HIGH = 12
WIDE = 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("variance", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1) ** 2)

    def forward(self, x):
        return (x - self.mean) / torch.sqrt(self.variance)


def get_inputs():
    return [torch.rand(BATCH, 3, HIGH, WIDE)]


def get_init_inputs():
    return []
