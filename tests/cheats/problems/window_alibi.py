"""Attention in a window, with ALiBi and a soft cap."""

import math
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, window, cap):
        super().__init__()
        self.window, self.cap = window, cap

    def forward(self, q, k, v):
        H, N = q.shape[1], q.shape[2]
        slopes = 2.0 ** (-torch.arange(1, H + 1, device=q.device, dtype=torch.float32))
        i = torch.arange(N, device=q.device)
        rel = i[None, :] - i[:, None]
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        s = self.cap * torch.tanh(s / self.cap)
        s = s + slopes[None, :, None, None] * rel
        s = s.masked_fill((rel > 0) | (rel <= -self.window), float("-inf"))
        return torch.softmax(s, -1) @ v


def get_inputs():
    return [torch.randn(1, 2, 24, 16) for _ in range(3)]


def get_init_inputs():
    return [6, 20.0]
