"""Which numbers are among others."""

import torch
import torch.nn as nn

COUNT = 500
OTHERS = 60


class Model(nn.Module):
    def forward(self, x, others):
        return (x[:, None] == others[None, :]).any(1)


def get_inputs():
    return [torch.randint(0, 400, (COUNT,)), torch.randint(0, 400, (OTHERS,))]


def get_init_inputs():
    return []
