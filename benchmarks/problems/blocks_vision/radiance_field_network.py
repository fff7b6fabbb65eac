"""Points as sines and cosines of growing frequency, through four layers, to colour and density: NeRF."""

import torch
import torch.nn as nn
import torch.nn.functional as F

POINTS = 65536
OCTAVES = 8
HIDDEN = 256


class Model(nn.Module):
    def __init__(self, octaves: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("frequency", torch.exp2(torch.arange(octaves)) * 0.5)
        self.first = nn.Linear(3 + 6 * octaves, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.third = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 4)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        angles = (points[..., None] * self.frequency).flatten(-2)
        y = F.relu(self.first(torch.cat([points, angles.sin(), angles.cos()], dim=-1)))
        y = F.relu(self.third(F.relu(self.second(y))))
        raw = self.last(y)
        return torch.cat([torch.sigmoid(raw[..., :3]), F.softplus(raw[..., 3:])], dim=-1)


def get_inputs():
    return [2 * torch.rand(POINTS, 3) - 1]


def get_init_inputs():
    return [OCTAVES, HIDDEN]
