"""Pre-emphasis and the log energy of overlapping frames of sound: voice activity detection, speech front ends."""

import torch
import torch.nn as nn

BATCH = 64
SAMPLES = 240000
FRAME = 400
HOP = 160


class Model(nn.Module):
    def __init__(self, frame: int, hop: int) -> None:
        super().__init__()
        self.frame = frame
        self.hop = hop
        self.window = nn.Parameter(torch.hann_window(frame))

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        emphasised = sound[:, 1:] - 0.97 * sound[:, :-1]
        frames = emphasised.unfold(1, self.frame, self.hop) * self.window
        return torch.log(frames.square().sum(dim=-1) + 1e-4)


def get_inputs():
    return [torch.randn(BATCH, SAMPLES) * torch.rand(BATCH, 1)]


def get_init_inputs():
    return [FRAME, HOP]
