"""Codes that were not used for a hundred calls are marked."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, codes):
        super().__init__()
        self.register_buffer("age", torch.zeros(codes, dtype=torch.int64))

    def forward(self, codes):
        used = (codes.reshape(-1, 1) == torch.arange(self.age.shape[0], device=codes.device)).any(0)
        self.age.copy_(torch.where(used, 0, self.age + 1))
        return (self.age >= 100).float()


def get_inputs():
    return [torch.randint(0, 16, (12,))]


def get_init_inputs():
    return [16]
