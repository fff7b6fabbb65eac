"""Frames of sound to a log-mel spectrogram, the Fourier transform as a strided convolution: Whisper's input."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
SAMPLES = 240000
FRAME = 400
HOP = 160
BANDS = 80


class Model(nn.Module):
    def __init__(self, frame: int, hop: int, bands: int) -> None:
        super().__init__()
        self.hop = hop
        bins = frame // 2 + 1
        angle = 2 * math.pi * torch.outer(torch.arange(bins), torch.arange(frame)) / frame
        window = torch.hann_window(frame)
        waves = torch.cat([angle.cos() * window, angle.sin() * window])
        self.register_buffer("waves", waves[:, None])
        centres = torch.linspace(0, bins, bands + 2)[1:-1, None]
        self.register_buffer("mel", (1 - (torch.arange(bins) - centres).abs() * bands / bins / 2).clamp(min=0))

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        real, imaginary = F.conv1d(sound[:, None], self.waves, stride=self.hop).chunk(2, dim=1)
        return torch.log10(self.mel @ (real.square() + imaginary.square()) + 1e-3)


def get_inputs():
    return [torch.randn(BATCH, SAMPLES) * torch.rand(BATCH, 1)]


def get_init_inputs():
    return [FRAME, HOP, BANDS]
