"""A strided 3d convolution over frames, then ReLU: the first layer of video networks."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
FRAMES = 16
HEIGHT = 128
WIDTH = 128
OUTPUTS = 64


class Model(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(3, outputs, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), dtype=torch.float16)

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(video))


def get_inputs():
    return [torch.randn(BATCH, 3, FRAMES, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return [OUTPUTS]
