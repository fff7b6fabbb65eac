"""Each token mixed with the one before it, squared ReLU, and a sigmoid gate: the channel mixing of RWKV."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
STEPS = 1024
WIDTH = 1536
HIDDEN = 4096


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.share_key = nn.Parameter(torch.full((width,), 0.5))
        self.share_gate = nn.Parameter(torch.full((width,), 0.5))
        self.key = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(hidden, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        key = self.key(torch.lerp(before, x, self.share_key))
        gate = torch.sigmoid(self.gate(torch.lerp(before, x, self.share_gate)))
        return gate * self.value(F.relu(key).square())


def get_inputs():
    return [(2 * torch.randn(BATCH, STEPS, WIDTH)).half()]


def get_init_inputs():
    return [WIDTH, HIDDEN]
