"""A factor that grows with the number of calls, up to one."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70
CALLS = 200


class Model(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.last = calls
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x * torch.clamp(self.calls / self.last, max=1.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [CALLS]
