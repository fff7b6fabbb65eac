"""How many bits of each word are set."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, words):
        shifts = torch.arange(64, device=words.device)
        return ((words[..., None] >> shifts) & 1).sum(-1)


def get_inputs():
    return [torch.randint(0, 2**62, (300,))]


def get_init_inputs():
    return []
