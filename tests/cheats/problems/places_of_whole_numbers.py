"""The place of the largest whole number of each row."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, counts):
        return counts.argmax(-1)


def get_inputs():
    return [torch.randint(0, 1000000, (24, 70))]


def get_init_inputs():
    return []
