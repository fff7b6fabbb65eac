import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A convolution, softsign, and the largest step of each channel."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 5)

    def forward(self, x):
        return F.softsign(self.conv(x)).amax(dim=2)


batch = 4
channels = 6
steps = 40


def get_inputs():
    return [torch.randn(batch, channels, steps)]


def get_init_inputs():
    return [channels]
