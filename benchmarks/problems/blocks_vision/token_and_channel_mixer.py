"""A feed-forward over patches, then one over channels, each with norm and residual: MLP-Mixer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64
PATCHES = 196
WIDTH = 512
PATCH_HIDDEN = 256


class Model(nn.Module):
    def __init__(self, patches: int, patch_hidden: int, width: int) -> None:
        super().__init__()
        self.patch_norm = nn.LayerNorm(width)
        self.patch_up = nn.Linear(patches, patch_hidden)
        self.patch_down = nn.Linear(patch_hidden, patches)
        self.channel_norm = nn.LayerNorm(width)
        self.channel_up = nn.Linear(width, 4 * width)
        self.channel_down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        across = self.patch_norm(x).transpose(1, 2)
        x = x + self.patch_down(F.gelu(self.patch_up(across))).transpose(1, 2)
        return x + self.channel_down(F.gelu(self.channel_up(self.channel_norm(x))))


def get_inputs():
    return [0.3 * torch.randn(BATCH, PATCHES, WIDTH)]


def get_init_inputs():
    return [PATCHES, PATCH_HIDDEN, WIDTH]
